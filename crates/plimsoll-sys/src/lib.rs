//! Every system call plimsoll makes: polling, sockets and their ports, clocks, affinity, limits,
//! threads and child processes. Mechanism only, no policy; the only crate with `unsafe`.

pub mod address;
pub mod affinity;
pub mod arrival;
pub mod clock;
pub mod file_lock;
pub mod input_file;
pub mod limits;
pub mod listening;
pub mod memory;
pub mod namespace;
mod netlink;
pub mod outgoing;
pub mod output_file;
pub mod poll;
pub mod ports;
pub mod private_dir;
pub mod process;
pub mod process_handle;
pub mod qdisc;
pub mod shared_memory;
pub mod signal;
pub mod sock_diag;
pub mod socket;
pub mod tcp_info;
pub mod terminal;
pub mod thread;
pub mod trusted_file;
pub mod whole_file;

pub use rustix::io::Errno;
