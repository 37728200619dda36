//! Headers of the PROXY protocol: no bytes panic the reader, none beyond them is taken, and less of a header is
//! none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_proto::proxy_header::header_bytes;

fuzz_target!(|bytes: &[u8]| {
    let Ok(length) = header_bytes(bytes) else { return };
    assert!((16..=bytes.len()).contains(&length));
    assert_eq!(header_bytes(&bytes[..length]), Ok(length));
    assert!(header_bytes(&bytes[..length - 1]).is_err());
});
