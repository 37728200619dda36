//! Every value that is read of a host, with the name under which it is published.
//!
//! [`Metric`] is one table: each row has a variant, the published name and a help text with the source, grouped by
//! [`MetricKind`]. The macro `catalogue!` derives the functions and the serialised form from it. [`Label`]s
//! distinguish the series of a metric; none takes unbounded values such as process ids. Units are seconds, bytes and
//! counts. A new value starts with a row here; then the sampler of `plimsoll-probe` adds samples.

use serde::{Deserialize, Serialize};

use crate::catalogue::catalogue;

/// The behaviour of a value over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Goes up and down.
    Gauge,
    /// Only grows, until what counts it is restarted.
    Counter,
}

named! {
    /// The labels that distinguish the series of one metric. None of them is unbounded: no process id, no port
    /// of a client.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Label {
        /// Number of a CPU.
        Cpu = "cpu",
        /// The use of CPU time: `user`, `system`, `idle`, ….
        Mode = "mode",
        /// `cpu`, `memory` or `io`.
        Resource = "resource",
        /// `some` or `full`; the kind of a source; the type of a key.
        Kind = "kind",
        /// `receive` and `transmit`, `active` and `passive`, `read` and `write`.
        Direction = "direction",
        /// A network interface, or a disk.
        Device = "device",
        /// State of a socket or connection.
        State = "state",
        /// The treatment of an object that did not fit.
        Action = "action",
        /// The reason for which something was given up.
        Reason = "reason",
        /// A process, by the name that it was given.
        Process = "process",
        /// A thread of a process: its name and its number within the process.
        Thread = "thread",
        /// A control group, by the process that is in it.
        Cgroup = "cgroup",
        /// A listening socket: address and port.
        Listener = "listener",
        /// A limit of the host, a process or a server.
        Limit = "limit",
        /// The scope of a limit.
        Scope = "scope",
        /// A proxy (frontend or backend) of HAProxy.
        Proxy = "proxy",
        /// An event that a control group counts.
        Event = "event",
        /// A name that another program sent over StatsD.
        Name = "name",
        /// The role of a process in a run.
        Role = "role",
        /// A source of readings: a process by its name, a server by where it is read.
        Source = "source",
    }
}

catalogue! {
    /// A value that is read from a host or a server. Units are seconds, bytes and counts; exports prefix its name with
    /// `plimsoll_`.
    Metric,
    /// Counter, which only grows, or gauge.
    kind: MetricKind,
    /// Source of the value, by the names of the kernel or the server.
    help;

    Counter {
        WatchCostSeconds = "watch_cost_seconds_total": "CPU time that reading these values has used";
        WatchMissed = "watch_samples_missed_total": "Readings that began more than one interval late";
        CpuSeconds = "cpu_seconds_total": "CPU time by mode: /proc/stat";
        YardstickSeconds = "yardstick_seconds_total":
            "CPU time of a fixed piece of work, repeated twice a second, by CPU: over the pieces, how slow it is";
        YardstickPieces = "yardstick_pieces_total": "Pieces of that work, by CPU";
        ContextSwitches = "context_switches_total": "Context switches: /proc/stat ctxt";
        PressureSeconds = "pressure_stalled_seconds_total":
            "Time in which some or all tasks waited for a resource: /proc/pressure";
        OomKills = "oom_kills_total": "Processes killed for lack of memory: /proc/vmstat oom_kill";
        MajorFaults = "major_page_faults_total": "Page faults that read a disk: /proc/vmstat pgmajfault";
        SwapIns = "swap_in_pages_total": "Pages swapped in: /proc/vmstat pswpin";
        AllocationStalls = "allocation_stalls_total":
            "Allocations that had to reclaim memory first: /proc/vmstat allocstall_*";
        TcpOpens = "tcp_opens_total": "Connections opened: Tcp ActiveOpens and PassiveOpens";
        TcpAttemptFails = "tcp_attempt_fails_total": "Connections not established: Tcp AttemptFails";
        TcpEstablishedResets = "tcp_established_resets_total":
            "Established connections that were reset: Tcp EstabResets";
        TcpResetsSent = "tcp_resets_sent_total": "RST segments sent: Tcp OutRsts";
        TcpSegments = "tcp_segments_total": "Segments: Tcp InSegs and OutSegs";
        TcpRetransmitted = "tcp_retransmitted_segments_total": "Segments sent again: Tcp RetransSegs";
        TcpTimeouts = "tcp_timeouts_total": "Retransmission timeouts: TcpExt TCPTimeouts";
        TcpSynRetransmitted = "tcp_syn_retransmitted_total":
            "SYN segments sent again: TcpExt TCPSynRetrans";
        TcpListenOverflows = "tcp_listen_overflows_total":
            "Connections that found an accept queue full: TcpExt ListenOverflows";
        TcpListenDrops = "tcp_listen_drops_total": "SYNs dropped by listeners: TcpExt ListenDrops";
        TcpSyncookiesSent = "tcp_syncookies_sent_total": "SYN cookies sent: TcpExt SyncookiesSent";
        TcpListenerDrops = "tcp_listener_drops_total":
            "SYNs and connections that a listener dropped, by listener and the watched process that has it";
        TcpSynQueueFull = "tcp_syn_queue_full_total":
            "SYNs that found the queue of half-open connections full: TcpExt TCPReqQFull*";
        TcpBacklogDrops = "tcp_backlog_drops_total":
            "Segments dropped at a full socket backlog: TcpExt TCPBacklogDrop";
        TcpReceiveQueueDrops = "tcp_receive_queue_drops_total":
            "Segments dropped at a full receive buffer: TcpExt TCPRcvQDrop";
        TcpZeroWindows = "tcp_zero_windows_total":
            "Windows of 0 that were advertised: TcpExt TCPToZeroWindowAdv";
        TcpMemoryPressures = "tcp_memory_pressures_total":
            "Times that TCP came under memory pressure: TcpExt TCPMemoryPressures";
        TcpAborts = "tcp_aborts_total": "Connections given up: TcpExt TCPAbortOn*";
        TcpTimeWaitOverflows = "tcp_time_wait_overflows_total":
            "Sockets that found the TIME_WAIT table full: TcpExt TCPTimeWaitOverflow";
        NetworkBytes = "network_bytes_total": "Bytes by interface: /proc/net/dev";
        NetworkPackets = "network_packets_total": "Packets by interface: /proc/net/dev";
        NetworkDrops = "network_drops_total": "Packets dropped by interface: /proc/net/dev drop";
        NetworkQueueDrops = "network_queue_drops_total":
            "Packets dropped by queueing disciplines, by interface: tc -s qdisc";
        SoftnetProcessed = "softnet_processed_total": "Packets taken from input queues: softnet_stat";
        SoftnetDropped = "softnet_dropped_total": "Packets that found an input queue full: softnet_stat";
        SoftnetSqueezed = "softnet_squeezed_total":
            "Times that softirq stopped with packets left: softnet_stat time_squeeze";
        ConntrackDrops = "conntrack_drops_total":
            "Connections not tracked for lack of room: nf_conntrack drop, early_drop, insert_failed";
        CgroupCpuSeconds = "cgroup_cpu_seconds_total": "CPU time of a control group: cpu.stat";
        CgroupPeriods = "cgroup_periods_total": "Scheduling periods with a quota: cpu.stat nr_periods";
        CgroupThrottledPeriods = "cgroup_throttled_periods_total":
            "Periods in which the quota was used up: cpu.stat nr_throttled";
        CgroupThrottledSeconds = "cgroup_throttled_seconds_total":
            "Time for which threads waited for the next period: cpu.stat throttled_usec";
        CgroupMemoryEvents = "cgroup_memory_events_total": "Times that a memory limit acted: memory.events";
        CgroupDiskOperations = "cgroup_disk_operations_total":
            "Reads and writes of a control group that has a limit of them: io.stat, blkio.throttle.io_serviced";
        CgroupDiskBytes = "cgroup_disk_bytes_total":
            "Bytes read and written by a control group that has a limit of them: io.stat, \
             blkio.throttle.io_service_bytes";
        CgroupPidsRefused = "cgroup_pids_refused_total": "Threads not created: pids.events max";
        ProcessCpuSeconds = "process_cpu_seconds_total":
            "CPU time by thread: /proc/PID/task/TID/schedstat, first field";
        ProcessRunDelaySeconds = "process_run_delay_seconds_total":
            "Time ready but not running, by thread: schedstat, second field";
        ProcessVoluntarySwitches = "process_voluntary_context_switches_total":
            "Times that a thread went to sleep, over its first threads: status voluntary_ctxt_switches";
        ProcessWrittenBytes = "process_written_bytes_total":
            "Bytes that a process had written to disks: /proc/PID/io write_bytes";
        ProcessTimeslices = "process_timeslices_total": "Times on a CPU, by thread: schedstat, third field";
        HaproxyConnections = "haproxy_process_connections_total": "HAProxy: CumConns";
        HaproxyRequests = "haproxy_process_requests_total": "HAProxy: CumReq";
        HaproxyMaxconnReached = "haproxy_process_maxconn_reached_total": "HAProxy: MaxconnReached";
        HaproxyPoolFailures = "haproxy_process_pool_failures_total": "HAProxy: PoolFailed";
        HaproxyDroppedLogs = "haproxy_process_dropped_logs_total": "HAProxy: DroppedLogs";
        HaproxyConnectErrors = "haproxy_backend_connection_errors_total":
            "HAProxy: connections to backends that failed, econ";
        HaproxyResponseErrors = "haproxy_backend_response_errors_total":
            "HAProxy: answers of backends that were broken or did not come, eresp";
        HaproxyRetries = "haproxy_backend_retry_warnings_total":
            "HAProxy: requests that were tried again on the same server, wretr";
        HaproxyRedispatches = "haproxy_backend_redispatch_warnings_total":
            "HAProxy: requests that were tried again on another server, wredis";
        HaproxySslCacheLookups = "haproxy_process_ssl_cache_lookups_total": "HAProxy: SslCacheLookups";
        HaproxySslCacheMisses = "haproxy_process_ssl_cache_misses_total": "HAProxy: SslCacheMisses";
        HaproxyDenied = "haproxy_frontend_denied_total": "HAProxy: requests refused by rules, dreq and dcon";
        NginxAccepted = "nginx_connections_accepted_total": "nginx: accepts";
        NginxHandled = "nginx_connections_handled_total": "nginx: handled";
        NginxRequests = "nginx_http_requests_total": "nginx: requests";
        StatsdCount = "statsd_count_total": "Counters received over StatsD, by name";
    }
    Gauge {
        SourceUp = "source_up": "1 for each source that the last reading has, 0 for one that is missing or has ended";
        HostCpus = "host_cpus": "CPUs that this host has";
        ProcessInfo = "process_info": "1 for each process that is read, with its role in the run";
        CpuFrequency = "cpu_frequency_hertz": "Clock frequency by CPU: cpufreq scaling_cur_freq";
        RunnableTasks = "runnable_tasks": "Tasks that run or are ready to: /proc/stat procs_running";
        MemoryTotalBytes = "memory_total_bytes": "MemTotal";
        MemoryAvailableBytes = "memory_available_bytes":
            "MemAvailable, less the inodes and dentries of open sockets";
        MemorySlabBytes = "memory_slab_bytes": "Objects of the kernel, sockets among them: Slab";
        TcpEstablished = "tcp_established": "Established connections of this network namespace: CurrEstab";
        TcpSockets = "tcp_sockets": "TCP sockets by state: /proc/net/sockstat";
        TcpMemoryBytes = "tcp_memory_bytes": "Data in socket buffers of the whole host: sockstat mem";
        NetworkSpeed = "network_speed_bytes_per_second":
            "Bytes per second that an interface sends at most: its speed, or the rate of its token bucket";
        ListenQueue = "listen_queue_connections": "Connections that wait to be accepted, by listener";
        ListenQueueLimit = "listen_queue_limit": "The most connections that may wait, by listener";
        CgroupMemoryBytes = "cgroup_memory_bytes": "Memory of a control group: memory.current";
        CgroupCpuLimit = "cgroup_cpu_limit_cpus":
            "CPUs that a control group may use: cpu.max, or cpu.cfs_quota_us over its period";
        CgroupDiskOperationsPerSecondMax = "cgroup_disk_operations_limit_per_second":
            "The most reads and writes of a control group per second: io.max, blkio.throttle.*_iops_device";
        CgroupDiskBytesPerSecondMax = "cgroup_disk_bytes_limit_per_second":
            "The most bytes that a control group reads and writes per second: io.max, blkio.throttle.*_bps_device";
        CgroupTasks = "cgroup_tasks": "Threads of a control group: pids.current";
        ProcessOpenFds = "process_open_fds": "Open descriptors of a process";
        ProcessThreads = "process_threads": "Threads of a process";
        ProcessWaiting = "process_waiting_threads":
            "Threads that wait in the kernel, by what they wait for, of a process's first threads: stat, wchan";
        ProcessResidentBytes = "process_resident_memory_bytes": "Resident memory of a process: VmRSS";
        ProcessPrivateBytes = "process_private_memory_bytes":
            "Memory of a process without pages of files, shared memory divided among its users: smaps_rollup";
        LimitUsed = "limit_used": "How much of a limit is in use";
        LimitMax = "limit_max": "The limit";
        HaproxyCurrentConnections = "haproxy_process_current_connections": "HAProxy: CurrConns";
        HaproxyConnectionRate = "haproxy_process_current_connection_rate": "HAProxy: ConnRate";
        HaproxySslRate = "haproxy_process_current_ssl_rate": "HAProxy: SslRate";
        HaproxyKeyRate = "haproxy_process_current_frontend_ssl_key_rate": "HAProxy: SslFrontendKeyRate";
        HaproxyIdleRatio = "haproxy_process_idle_time_ratio":
            "HAProxy: Idle_pct of the thread that answered, 0 to 1";
        HaproxyRunQueue = "haproxy_process_current_run_queue": "HAProxy: Run_queue";
        HaproxyTasks = "haproxy_process_current_tasks": "HAProxy: Tasks";
        HaproxySessions = "haproxy_current_sessions": "HAProxy: scur by proxy";
        HaproxyRequestsInService = "haproxy_backend_current_sessions":
            "HAProxy: scur of each backend, with those in its queue";
        HaproxyQueued = "haproxy_current_queue": "HAProxy: qcur by proxy";
        HaproxyTableUsed = "haproxy_sticktable_used":
            "HAProxy: entries of a stick table, by its name and the type of its key: show table";
        NginxConnections = "nginx_connections": "nginx: connections by state";
        StatsdGauge = "statsd_gauge": "Gauges received over StatsD, by name";
        StatsdTimerSeconds = "statsd_timer_seconds":
            "Mean of the timers (ms) received over StatsD in one interval, by name";
        StatsdValue = "statsd_value":
            "Mean of the histograms and distributions (h, d) received over StatsD in one interval, by name, in the \
             sender's unit";
    }
}

named! {
    /// The role of a process in a run: the value of [`Label::Role`].
    pub enum Role {
        /// The server under test, or one of its processes.
        Server = "server",
        /// A server behind the server under test.
        Backend = "backend",
        /// A load generator.
        Client = "client",
    }
}
