//! `plimsoll hold` and `plimsoll lab hold` into jobs: a load whose connections are held.

use plimsoll_model::Nanos;
use plimsoll_model::plan::{HoldPlan, Pacing, Trust};
use plimsoll_model::units::grouped;

use super::Inputs;
use super::lab::{Hosts, hosts};
use super::load::{LoadJob, Parts, assemble};
use crate::exit::Stop;
use crate::flags::hold::HoldPaceFlags;
use crate::flags::shared::{ConnectionFlags, RequestFlags, TrustFlags};
use crate::flags::{HoldFlags, LabHoldFlags};

/// `lab hold` without --connections: done in half a minute.
const LAB_CONNECTIONS_DEFAULT: u64 = 10_000;
/// The levels on the way up of a laboratory, in percent of what is asked for.
const LAB_LEVELS_PERCENT: [u64; 5] = [10, 25, 50, 75, 100];

/// One hold, resolved and checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HoldJob {
    /// What is sent and where to; its pacing is a hold.
    pub(crate) load: LoadJob,
    /// How connections are opened and used.
    pub(crate) hold: HoldPlan,
    /// How long to hold at the top.
    pub(crate) span: Nanos,
    /// Take what fits.
    pub(crate) up_to: bool,
    /// Connections of each level on the way up, ascending; the last is what is asked for.
    pub(crate) levels: Vec<u64>,
}

impl HoldJob {
    /// Asks for fewer connections: as many as fit.
    pub(crate) fn lower_to(&mut self, connections: u64) {
        self.load.plan.connections = connections;
        self.levels.retain(|level| *level < connections);
        self.levels.push(connections);
    }
}

/// Checks and resolves the flags of `hold`.
pub(crate) fn build(flags: &HoldFlags, inputs: &mut Inputs<'_>) -> Result<HoldJob, Stop> {
    let connections = flags.client.connection.connections.ok_or_else(|| {
        Stop::usage(
            "hold needs to know how many connections",
            "for example: plimsoll hold https://127.0.0.1:8443/ --connections 10k",
        )
    })?;
    check_pool_flags(&flags.client.connection)?;
    let parts = Parts {
        usage: "plimsoll hold",
        url: flags.url.as_deref(),
        request: &flags.client.request,
        connection: &flags.client.connection,
        trust: &flags.client.trust,
        handshake: &flags.client.handshake,
        output: &flags.client.output,
        pacing: pacing(&flags.pace),
        ops_total: None,
        deadline: Some(flags.pace.deadline),
        slo: None,
        linger: flags.pace.linger,
        seed: flags.pace.seed,
    };
    let job = job(parts, &flags.pace, flags.span, vec![connections], inputs)?;
    check_targets(&job)?;
    Ok(job)
}

/// One laboratory for holding, checked; the SUT is not yet known by address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LabHoldJob {
    /// What it is made of.
    pub(crate) hosts: Hosts,
    flags: LabHoldFlags,
}

/// Checks the flags of `lab hold`; a hold against a stand-in address is built as well, so that
/// whatever is wrong with it is said before anything is started.
pub(crate) fn build_lab(flags: &LabHoldFlags, inputs: &mut Inputs<'_>) -> Result<LabHoldJob, Stop> {
    check_pool_flags(&flags.connection)?;
    let job = LabHoldJob { hosts: hosts(&flags.hosts)?, flags: flags.clone() };
    job.hold("https://127.0.0.1:443/", Trust::Insecure, inputs)?;
    Ok(job)
}

impl LabHoldJob {
    /// Connections at the top.
    pub(crate) fn connections(&self) -> u64 {
        self.flags.connection.connections.unwrap_or(LAB_CONNECTIONS_DEFAULT)
    }

    /// Whether less is good enough.
    pub(crate) fn up_to(&self) -> bool {
        self.flags.pace.up_to
    }

    /// What is kept of a TLS connection, at our server as at our client.
    pub(crate) fn tls_state(&self) -> plimsoll_model::plan::TlsState {
        self.flags.handshake.tls_state.into()
    }

    /// The hold, once the SUT answers at `url` with a certificate that `trust` accepts.
    pub(crate) fn hold(
        &self,
        url: &str,
        trust: Trust,
        inputs: &mut Inputs<'_>,
    ) -> Result<HoldJob, Stop> {
        let flags = &self.flags;
        let request = RequestFlags { headers: flags.headers.clone(), ..RequestFlags::default() };
        let connections = self.connections();
        let connection =
            ConnectionFlags { connections: Some(connections), ..flags.connection.clone() };
        let parts = Parts {
            usage: "plimsoll lab hold",
            url: Some(url),
            request: &request,
            connection: &connection,
            trust: &TrustFlags::default(),
            handshake: &flags.handshake,
            output: &flags.output,
            pacing: pacing(&flags.pace),
            ops_total: None,
            deadline: Some(flags.pace.deadline),
            slo: None,
            linger: flags.pace.linger,
            seed: flags.pace.seed,
        };
        let mut levels = LAB_LEVELS_PERCENT.map(|percent| connections * percent / 100).to_vec();
        levels.retain(|level| *level > 0);
        levels.dedup();
        let mut job = job(parts, &flags.pace, flags.span, levels, inputs)?;
        job.load.plan.tls.trust = trust;
        Ok(job)
    }
}

fn plan(flags: &HoldPaceFlags) -> HoldPlan {
    HoldPlan {
        connections_per_s: flags.rate.get(),
        opening_max: flags.opening,
        heartbeat: (flags.heartbeat > Nanos::ZERO).then_some(flags.heartbeat),
        replace: flags.replace,
    }
}

fn pacing(flags: &HoldPaceFlags) -> Pacing {
    Pacing::Hold(plan(flags))
}

fn job(
    parts: Parts<'_>,
    pace: &HoldPaceFlags,
    span: Nanos,
    levels: Vec<u64>,
    inputs: &mut Inputs<'_>,
) -> Result<HoldJob, Stop> {
    let mut load = assemble(parts, inputs)?;
    // The ramp opens the connections, at its own pace.
    load.plan.prewarm = false;
    let rate = format!("{} new connections", pace.rate);
    load.settings.insert("rate".to_owned(), rate);
    Ok(HoldJob { load, hold: plan(pace), span, up_to: pace.up_to, levels })
}

/// What only a pool that comes and goes can do.
fn check_pool_flags(flags: &ConnectionFlags) -> Result<(), Stop> {
    let typed = [
        ("--no-keepalive", flags.no_keepalive),
        ("--requests-per-connection", flags.requests_per_connection.is_some()),
        ("--handshake-only", flags.handshake_only),
    ];
    match typed.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(Stop::usage(
            format_args!("{flag} closes the connections that hold is to keep"),
            format_args!("drop {flag}, or use plimsoll load"),
        )),
    }
}

/// More targets than connections: some would never be tried.
fn check_targets(job: &HoldJob) -> Result<(), Stop> {
    let (targets, connections) = (job.load.plan.targets.len() as u64, job.load.plan.connections);
    if targets > connections {
        return Err(Stop::usage(
            format_args!("{} targets share {connections} connections", grouped(targets)),
            format_args!("give --connections {targets} or more, or fewer targets"),
        ));
    }
    Ok(())
}
