//! Histograms as archives and frames hold them: no input panics or becomes larger than a histogram of ours, and what is
//! read is written and read again. The first byte chooses what the rest is: base64, an encoding, or one to be compressed.
#![no_main]

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use flate2::Compression;
use flate2::read::ZlibEncoder;
use libfuzzer_sys::fuzz_target;
use plimsoll_model::Histogram;

/// The buckets of a histogram up to an hour.
const BUCKETS_MAX: u32 = 23;

fn compressed(plain: &[u8]) -> Vec<u8> {
    let mut deflated = Vec::new();
    ZlibEncoder::new(plain, Compression::fast()).read_to_end(&mut deflated).unwrap();
    let length = u32::try_from(deflated.len()).unwrap();
    [&[0x1C, 0x84, 0x93, 0x14][..], &length.to_be_bytes(), &deflated].concat()
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, input)) = bytes.split_first() else { return };
    let text = match choice % 3 {
        0 => String::from_utf8_lossy(input).into_owned(),
        1 => STANDARD_NO_PAD.encode(input),
        _ => STANDARD_NO_PAD.encode(compressed(input)),
    };
    let Ok(hist) = Histogram::decode(&text) else { return };
    assert!(hist.bucket_count() <= BUCKETS_MAX);
    assert_eq!(Histogram::decode(&hist.encode()).as_ref(), Ok(&hist));
    let mut twice = hist.clone();
    twice.merge(&hist);
    assert_eq!(twice.count(), 2 * hist.count());
    assert_eq!(twice.max(), hist.max());
    assert!(hist.quantile(0.5) <= hist.max());
});
