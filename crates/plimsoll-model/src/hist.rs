//! Latency histograms: HDR, three significant digits, 1 us to 1 h, merged without loss.
//!
//! [`Histogram`] wraps `hdrhistogram`. An empty one allocates nothing, and the memory grows with the largest value,
//! up to 200 kB; values above an hour count as an hour. The serialised form is HdrHistogram's compressed V2 encoding
//! in base64. [`Histogram::decode`] reads foreign bytes: it checks length, digits and range before it allocates a
//! histogram. Quantiles are within 0.1 % and belong after the last merge. Start reading at [`Histogram::record_n`]
//! and [`Histogram::decode`].

use std::fmt;
use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::stats::Z_975;

/// Values below this are not distinguished: a loopback round trip is ten times longer.
const LOWEST_NS: u64 = 1_000;
/// Values above one hour saturate here.
const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Three digits: quantiles are within 0.1 % of the recorded values.
const SIGNIFICANT_DIGITS: u8 = 3;
/// Every value lies below this: buckets end at powers of two.
const VALUES_END_NS: u64 = HIGHEST_NS.next_power_of_two();
/// Counts of the largest histogram: a whole first bucket, and the upper half of each further one.
const COUNTS_MAX: u32 =
    (VALUES_END_NS.ilog2() - LOWEST_NS.ilog2() - Histogram::SUB_BUCKETS.ilog2() + 2)
        * Histogram::SUB_BUCKETS
        / 2;
/// Values in one histogram: sums of thousands of histograms fit in 64 bits.
const VALUES_MAX: u64 = 1 << 48;

/// The first four bytes of an encoding that is compressed; the length of the rest follows in four more.
const COMPRESSED: [u8; 4] = [0x1C, 0x84, 0x93, 0x14];
/// Cookie, bytes of counts, offset and digits in four bytes each; lowest value, highest value and ratio in eight.
const HEADER_BYTES: usize = 40;
/// A count has up to nine bytes.
const COUNT_BYTES_MAX: usize = 9;
/// The largest encoding that is not compressed: 221 kB.
const PLAIN_BYTES_MAX: usize = HEADER_BYTES + COUNTS_MAX as usize * COUNT_BYTES_MAX;
/// The largest encoding in base64. What cannot be compressed grows a little.
const ENCODED_CHARS_MAX: usize = (PLAIN_BYTES_MAX + 1_024).div_ceil(3) * 4;

/// A histogram of spans in nanoseconds. An empty one costs nothing, one up to 1 ms 16 kB, and each
/// doubling of its largest value 8 kB more, up to 200 kB.
#[derive(Clone, Default)]
pub struct Histogram(Option<Hdr<u64>>);

/// The smallest there is; it grows with its values. hdrhistogram writes to all of its memory, so
/// that one made for an hour would cost 200 kB where 20 will do.
fn allocate() -> Hdr<u64> {
    let mut hdr = Hdr::new_with_bounds(LOWEST_NS, 2 * LOWEST_NS, SIGNIFICANT_DIGITS)
        .expect("the bounds are constants that hdrhistogram accepts");
    hdr.auto(true);
    hdr
}

/// One line of a percentile distribution, as HdrHistogram's programs print it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileStep {
    /// The value at the quantile.
    pub value: Nanos,
    /// The quantile, 0 to 1.
    pub quantile: f64,
    /// Values up to this one.
    pub count: u64,
}

/// Returns the ranks, from 1, of the two of `count` independent values between which their distribution's quantile `q`
/// lies with 95 %: `n q -+ 1.96 sqrt(n q (1 - q))`, the upper one further up. `None` without values.
pub fn quantile_ranks(count: u64, q: f64) -> Option<(u64, u64)> {
    let n = count as f64;
    let off = Z_975 * (n * q * (1.0 - q)).sqrt();
    let rank = |rank: f64| (rank.clamp(1.0, n.max(1.0))) as u64;
    (count > 0).then(|| (rank((n * q - off).floor()), rank((n * q + off).ceil() + 1.0)))
}

impl Histogram {
    /// Sub-buckets of each bucket: 2,048 hold three significant digits.
    pub const SUB_BUCKETS: u32 = 2_048;

    /// Creates an empty histogram.
    pub const fn new() -> Self {
        Self(None)
    }

    /// Counts one value; above one hour it is counted as one hour.
    #[inline]
    pub fn record(&mut self, span: Nanos) {
        self.record_n(span, 1);
    }

    /// Counts one value `count` times.
    pub fn record_n(&mut self, span: Nanos, count: u64) {
        self.0
            .get_or_insert_with(allocate)
            .record_n(span.0.min(HIGHEST_NS), count)
            .expect("it grows up to an hour");
    }

    /// Adds every count of `other`.
    pub fn merge(&mut self, other: &Self) {
        let Some(theirs) = other.filled() else { return };
        match &mut self.0 {
            Some(ours) => ours.add(theirs).expect("it grows up to an hour, and no value is above"),
            // A copy is made at once; one that grows is made again with every doubling.
            none => *none = Some(theirs.clone()),
        }
    }

    /// Forgets every count and gives the memory back.
    pub fn clear(&mut self) {
        self.0 = None;
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, Hdr::len)
    }

    /// Reports whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Returns the memory of its counts.
    pub fn memory_bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |hdr| (hdr.distinct_values() * size_of::<u64>()) as u64)
    }

    fn filled(&self) -> Option<&Hdr<u64>> {
        self.0.as_ref().filter(|hdr| !hdr.is_empty())
    }

    /// Returns the number of values above `limit`, to the resolution of the histogram (0.1 %).
    pub fn count_above(&self, limit: Nanos) -> u64 {
        match self.filled() {
            Some(hdr) if limit.0 < hdr.max() => hdr.len() - hdr.count_between(0, limit.0),
            _ => 0,
        }
    }

    /// Returns the value at quantile `q` (0 to 1); `None` when empty.
    ///
    /// ```
    /// use plimsoll_model::{Histogram, Nanos};
    ///
    /// let mut latencies = Histogram::new();
    /// assert_eq!(latencies.quantile(0.99), None);
    /// for ms in 1..=1_000 {
    ///     latencies.record(Nanos::from_millis(ms));
    /// }
    /// let p99 = latencies.quantile(0.99).expect("a thousand values");
    /// assert_eq!(p99.as_millis_f64().round(), 990.0);
    /// ```
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        self.filled().map(|hdr| Nanos(hdr.value_at_quantile(q)))
    }

    /// Returns the 95 % interval of the quantile `q` of independent values, by order statistics; `None` when empty.
    pub fn quantile_interval(&self, q: f64) -> Option<(Nanos, Nanos)> {
        let (low, high) = quantile_ranks(self.count(), q)?;
        // A quantile half a value below a rank is the value of that rank, however it is rounded.
        let at = |rank: u64| self.quantile((rank as f64 - 0.5) / self.count() as f64);
        at(low).zip(at(high))
    }

    /// Returns the smallest value; `None` when empty.
    pub fn min(&self) -> Option<Nanos> {
        self.filled().map(|hdr| Nanos(hdr.min()))
    }

    /// Returns the mean; `None` when empty.
    pub fn mean(&self) -> Option<Nanos> {
        self.filled().map(|hdr| Nanos(hdr.mean() as u64))
    }

    /// Returns the largest value; `None` when empty.
    pub fn max(&self) -> Option<Nanos> {
        self.filled().map(|hdr| Nanos(hdr.max()))
    }

    /// Returns the recorded buckets in ascending order: (highest equivalent value, count).
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        self.0
            .iter()
            .flat_map(Hdr::iter_recorded)
            .map(|step| (Nanos(step.value_iterated_to()), step.count_since_last_iteration()))
    }

    /// Returns the standard deviation; `None` when empty.
    pub fn deviation(&self) -> Option<Nanos> {
        self.filled().map(|hdr| Nanos(hdr.stdev() as u64))
    }

    /// Returns the number of buckets, each twice as wide as the one before.
    pub fn bucket_count(&self) -> u32 {
        self.0.as_ref().map_or(0, |hdr| u32::from(hdr.buckets()))
    }

    /// Returns the percentile distribution, empty for an empty histogram: `ticks` quantiles from each one to half way
    /// to quantile 1, and half way again, until 1 is reached.
    pub fn quantile_steps(&self, ticks: u32) -> impl Iterator<Item = QuantileStep> + '_ {
        let mut count = 0;
        self.filled().into_iter().flat_map(move |hdr| hdr.iter_quantiles(ticks)).map(move |step| {
            count += step.count_since_last_iteration();
            QuantileStep {
                value: Nanos(step.value_iterated_to()),
                quantile: step.quantile_iterated_to(),
                count,
            }
        })
    }

    /// Returns HdrHistogram's compressed V2 encoding in base64 with its padding, as interval logs hold it.
    pub fn encode_for_log(&self) -> String {
        STANDARD.encode(self.0.as_ref().map_or_else(|| compressed(&allocate()), compressed))
    }

    /// Returns HdrHistogram's compressed V2 encoding in base64, empty for an empty histogram.
    pub fn encode(&self) -> String {
        self.filled().map_or_else(String::new, |hdr| STANDARD_NO_PAD.encode(compressed(hdr)))
    }

    /// Reads the encoding of [`Self::encode`], or the one without compression. An encoding that claims more than a
    /// histogram of this type can have is an error before anything is allocated for it.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        if text.is_empty() {
            return Ok(Self::new());
        }
        if text.len() > ENCODED_CHARS_MAX {
            return Err(DecodeError);
        }
        let plain = uncompressed(STANDARD_NO_PAD.decode(text).map_err(|_| DecodeError)?)?;
        if !has_own_bounds(&plain) {
            return Err(DecodeError);
        }
        let mut hdr: Hdr<u64> =
            Deserializer::new().deserialize(&mut plain.as_slice()).map_err(|_| DecodeError)?;
        // The largest value is reported as the end of its bucket, 0.1 % above an hour at most.
        if hdr.max() > HIGHEST_NS + HIGHEST_NS / 512 || hdr.len() > VALUES_MAX {
            return Err(DecodeError);
        }
        hdr.auto(true);
        Ok(Self(Some(hdr)))
    }
}

/// Returns an encoding without compression.
fn uncompressed(bytes: Vec<u8>) -> Result<Vec<u8>, DecodeError> {
    let Some(deflated) = bytes.strip_prefix(&COMPRESSED) else { return Ok(bytes) };
    let mut plain = Vec::new();
    ZlibDecoder::new(deflated.get(4..).ok_or(DecodeError)?)
        .take(PLAIN_BYTES_MAX as u64 + 1)
        .read_to_end(&mut plain)
        .map_err(|_| DecodeError)?;
    Ok(plain)
}

/// Reports whether an encoding without compression has the digits and the range of our histograms, and no more counts.
/// The header alone decides how much memory `hdrhistogram` allocates.
fn has_own_bounds(plain: &[u8]) -> bool {
    let Some((header, counts)) = plain.split_at_checked(HEADER_BYTES) else { return false };
    let number = |from: usize, to: usize| {
        header[from..to].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    plain.len() <= PLAIN_BYTES_MAX
        && number(4, 8) == counts.len() as u64
        && number(12, 16) == u64::from(SIGNIFICANT_DIGITS)
        && number(16, 24) == LOWEST_NS
        && number(24, 32) < VALUES_END_NS
        // The one number that hdrhistogram cannot negate.
        && !counts.windows(COUNT_BYTES_MAX).any(|count| count == [0xFF; COUNT_BYTES_MAX])
}

fn compressed(hdr: &Hdr<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(hdr, &mut bytes)
        .expect("writing to memory cannot fail, and the counts fit in 64 bits");
    bytes
}

/// The text is not a histogram in HdrHistogram's V2 encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a base64 HdrHistogram V2 within 1 us to 1 h")]
pub struct DecodeError;

/// Equal are histograms with equal counts of equal values, whatever memory they use.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.count() == other.count() && self.buckets().eq(other.buckets())
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Histogram {{ count: {}, p50: {:?}, max: {:?} }}",
            self.count(),
            self.quantile(0.5),
            self.max()
        )
    }
}

impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.encode())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::decode(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use flate2::read::ZlibEncoder;
    use hdrhistogram::serialization::V2Serializer;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranks_around_a_quantile() {
        assert_eq!(quantile_ranks(0, 0.5), None);
        assert_eq!(quantile_ranks(1, 0.5), Some((1, 1)));
        // 50 -+ 9.8, and 990 -+ 6.2.
        assert_eq!(quantile_ranks(100, 0.5), Some((40, 61)));
        assert_eq!(quantile_ranks(1_000, 0.99), Some((983, 998)));
        let mut values = Histogram::new();
        (1..=100).for_each(|ms| values.record(Nanos::from_millis(ms)));
        let (low, high) = values.quantile_interval(0.5).unwrap();
        assert_eq!((low.0 / 1_000_000, high.0 / 1_000_000), (40, 61));
    }

    proptest! {
        #[test]
        fn merging_the_parts_equals_recording_the_whole(
            left in prop::collection::vec(0u64..10_000_000_000_000, 0..50),
            right in prop::collection::vec(0u64..10_000_000_000_000, 0..50),
        ) {
            let mut whole = Histogram::new();
            let mut parts = [Histogram::new(), Histogram::new()];
            for (part, values) in parts.iter_mut().zip([&left, &right]) {
                for &value in values {
                    part.record(Nanos(value));
                    whole.record(Nanos(value));
                }
            }
            let [mut a, b] = parts;
            a.merge(&b);
            prop_assert_eq!(&a, &whole);
            prop_assert_eq!(Histogram::decode(&whole.encode()), Ok(whole));
        }

        #[test]
        fn decode_never_panics(text in ".{0,80}") {
            let _ = Histogram::decode(&text);
        }
    }

    /// An encoding without compression: its digits, its range, the bytes of counts that it claims, and those it has.
    fn forged(digits: u32, range: (u64, u64), claimed: u32, counts: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x1C, 0x84, 0x93, 0x13];
        bytes.extend(claimed.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(digits.to_be_bytes());
        bytes.extend(range.0.to_be_bytes());
        bytes.extend(range.1.to_be_bytes());
        bytes.extend(1.0_f64.to_be_bytes());
        bytes.extend(counts);
        bytes
    }

    fn deflated(plain: &[u8]) -> Vec<u8> {
        let mut deflated = Vec::new();
        ZlibEncoder::new(plain, flate2::Compression::fast()).read_to_end(&mut deflated).unwrap();
        [&COMPRESSED[..], &(deflated.len() as u32).to_be_bytes(), &deflated].concat()
    }

    #[test]
    fn an_encoding_that_claims_more_than_a_histogram_has_is_refused() {
        let own = (LOWEST_NS, 2 * LOWEST_NS);
        let none = vec![0; 1 << 26];
        for (what, plain) in [
            ("4 GiB of counts in 40 bytes", forged(3, own, u32::MAX, &[])),
            ("64 MiB of counts in 65 kB", forged(3, own, 1 << 26, &none)),
            ("counts that are missing", forged(3, own, 9, &[2])),
            ("counts that are too many", forged(3, own, 0, &[2])),
            ("five digits", forged(5, (1, u64::MAX), 1, &[2])),
            ("values of centuries", forged(3, (LOWEST_NS, u64::MAX), 1, &[2])),
            ("values from 1 ns on", forged(3, (1, 2_000), 1, &[2])),
            ("a count that has no negative", forged(3, own, 18, &[0xFF; 18])),
            ("more values than there can be", forged(3, own, 9, &[0xFE; 9])),
        ] {
            let texts = [&plain, &deflated(&plain)].map(|bytes| STANDARD_NO_PAD.encode(bytes));
            for text in texts {
                assert_eq!(Histogram::decode(&text), Err(DecodeError), "{what}");
            }
        }
        let one = forged(3, own, 1, &[2]);
        for bytes in [deflated(&one), one] {
            let hist = Histogram::decode(&STANDARD_NO_PAD.encode(bytes));
            assert_eq!(hist.map(|hist| hist.count()), Ok(1));
        }
    }

    #[test]
    fn the_largest_histogram_is_read_again() {
        let mut hist = Histogram::new();
        let mut random = fastrand::Rng::with_seed(7);
        let hdr = Hdr::<u64>::new_with_bounds(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS).unwrap();
        for step in hdr.iter_all() {
            let value = Nanos(step.value_iterated_to());
            hist.record_n(value, random.u64(1 << 32..1 << 33));
        }
        assert_eq!(hist.0.as_ref().map(Hdr::distinct_values), Some(COUNTS_MAX as usize));
        assert_eq!(Histogram::decode(&hist.encode()), Ok(hist));
    }

    #[test]
    fn values_up_to_an_hour_keep_their_digits_and_longer_ones_are_an_hour() {
        let mut hist = Histogram::new();
        for span in [Nanos::from_secs(3599), Nanos::ZERO, Nanos::from_secs(7200)] {
            hist.record(span);
        }
        let within = |value: Option<Nanos>, expected: Nanos| {
            let value = value.expect("three values").0;
            value.abs_diff(expected.0) <= expected.0 / 1000
        };
        assert!(within(hist.quantile(0.5), Nanos::from_secs(3599)), "{hist:?}");
        assert!(within(hist.max(), Nanos::from_secs(3600)), "{hist:?}");
        assert_eq!(Histogram::decode(&hist.encode()), Ok(hist));
    }

    #[test]
    fn histograms_of_older_versions_are_read() {
        let mut hist = Histogram::new();
        for us in 1..=5_000 {
            hist.record(Nanos(us * us % 7_919 * 1_000));
        }
        let mut plain = Vec::new();
        let hdr = hist.filled().expect("it holds values");
        V2Serializer::new().serialize(hdr, &mut plain).expect("memory takes it");
        let plain = STANDARD_NO_PAD.encode(plain);
        assert_eq!(Histogram::decode(&plain), Ok(hist.clone()));
        assert!(plain.starts_with("HISTE") && hist.encode().starts_with("HISTF"));
        assert!(
            2 * hist.encode().len() < plain.len(),
            "{} of {}",
            hist.encode().len(),
            plain.len()
        );
    }

    #[test]
    fn count_above_is_exclusive() {
        let mut hist = Histogram::new();
        for ms in 1..=100 {
            hist.record(Nanos::from_millis(ms));
        }
        assert_eq!(hist.count_above(Nanos::from_millis(99)), 1);
        assert_eq!(hist.count_above(Nanos::from_millis(100)), 0);
        assert_eq!(hist.count_above(Nanos::ZERO), 100);
    }
}
