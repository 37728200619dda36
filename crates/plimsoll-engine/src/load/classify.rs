//! Which class a failed system call belongs to, and so whose fault it is.

use plimsoll_model::ErrorClass;
use plimsoll_sys::Errno;

/// The class of an error that only this machine can be the cause of; `None` for others.
fn local_class(errno: Errno) -> Option<ErrorClass> {
    match errno {
        Errno::MFILE | Errno::NFILE => Some(ErrorClass::LocalFiles),
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Some(ErrorClass::LocalPorts),
        Errno::NOBUFS | Errno::NOMEM | Errno::NOSPC => Some(ErrorClass::LocalMemory),
        _ => None,
    }
}

/// The class of an error before the connection was usable.
pub(crate) fn opening_error(errno: Errno) -> ErrorClass {
    local_class(errno).unwrap_or(match errno {
        Errno::CONNREFUSED => ErrorClass::ConnectRefused,
        Errno::TIMEDOUT => ErrorClass::ConnectTimeout,
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => ErrorClass::ConnectReset,
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::HOSTDOWN | Errno::NETDOWN => {
            ErrorClass::ConnectUnreachable
        }
        _ => ErrorClass::LocalOther,
    })
}

/// The class of an error on a usable connection.
pub(crate) fn exchange_error(errno: Errno) -> ErrorClass {
    local_class(errno).unwrap_or(match errno {
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => ErrorClass::ResetByPeer,
        // Keepalive or retransmission gave up, or the route went away, in mid-connection.
        Errno::TIMEDOUT => ErrorClass::ClosedByPeer,
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::HOSTDOWN | Errno::NETDOWN => {
            ErrorClass::ConnectUnreachable
        }
        _ => ErrorClass::LocalOther,
    })
}
