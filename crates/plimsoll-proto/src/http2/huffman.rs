//! The Huffman code of HPACK (RFC 7541, 5.2 and appendix B).
//!
//! The code is canonical, so that the lengths of its 257 codes are all of it. Codes of up to eight bits,
//! which nearly all header bytes have, are found in one look-up.

/// The length of each code in bits, by symbol; the last one is the end of string.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11,
    10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8,
    15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5,
    6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23,
    23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21,
    23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25,
    26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26,
    28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const END_OF_STRING: u16 = 256;
const LENGTH_MAX: usize = 30;

/// The code, made for decoding.
struct Code {
    /// By length: the first code of it, and how many shorter ones there are.
    first: [u32; LENGTH_MAX + 2],
    shorter: [u16; LENGTH_MAX + 2],
    /// In the order of their codes.
    symbols: [u16; 257],
    /// By the next eight bits: symbol and length of a code within them; length 0 if it is longer.
    short: [(u8, u8); 256],
}

static CODE: Code = Code::new();

impl Code {
    const fn new() -> Self {
        let mut code = Self {
            first: [0; LENGTH_MAX + 2],
            shorter: [0; LENGTH_MAX + 2],
            symbols: [0; 257],
            short: [(0, 0); 256],
        };
        let (mut next, mut placed, mut length) = (0u32, 0usize, 1usize);
        while length <= LENGTH_MAX {
            next <<= 1;
            code.first[length] = next;
            code.shorter[length] = placed as u16;
            let mut symbol = 0;
            while symbol < LENGTHS.len() {
                if LENGTHS[symbol] as usize == length {
                    code.symbols[placed] = symbol as u16;
                    if length <= 8 {
                        let from = (next << (8 - length)) as usize;
                        let mut at = 0;
                        while at < 1 << (8 - length) {
                            code.short[from + at] = (symbol as u8, length as u8);
                            at += 1;
                        }
                    }
                    placed += 1;
                    next += 1;
                }
                symbol += 1;
            }
            length += 1;
        }
        code.shorter[LENGTH_MAX + 1] = placed as u16;
        code
    }

    /// Returns the symbol whose code begins `bits`, of which the top one is the next, and its length.
    const fn symbol(&self, bits: u32) -> Option<(u16, usize)> {
        let mut length = 9;
        while length <= LENGTH_MAX {
            let code = bits >> (32 - length);
            let of_length = self.shorter[length + 1] - self.shorter[length];
            if code < self.first[length] + of_length as u32 {
                let place = self.shorter[length] as u32 + code - self.first[length];
                return Some((self.symbols[place as usize], length));
            }
            length += 1;
        }
        None
    }
}

/// Appends what `input` is the code of; false if it is not one: the end of string is in it, or
/// padding of more than seven bits or other than ones.
#[must_use]
pub(super) fn decode(input: &[u8], out: &mut Vec<u8>) -> bool {
    // The next bits, the first of them topmost.
    let (mut bits, mut count) = (0u64, 0usize);
    let mut rest = input.iter();
    loop {
        while count <= 56 {
            let Some(byte) = rest.next() else { break };
            bits |= u64::from(*byte) << (56 - count);
            count += 8;
        }
        if count == 0 {
            return true;
        }
        let (short, length) = CODE.short[(bits >> 56) as usize];
        let (symbol, length) = match length {
            0 => match CODE.symbol((bits >> 32) as u32) {
                Some(found) => found,
                None => return false,
            },
            length => (u16::from(short), usize::from(length)),
        };
        if length > count {
            // The last bits are the beginning of the code of the end of string, which is all ones.
            return count < 8 && bits >> (64 - count) == (1 << count) - 1;
        }
        if symbol == END_OF_STRING {
            return false;
        }
        out.push(symbol as u8);
        bits <<= length;
        count -= length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the code of `text`, padded.
    fn encode(text: &[u8]) -> Vec<u8> {
        let code_of = |symbol: u8| {
            let length = LENGTHS[usize::from(symbol)];
            let place = CODE.symbols.iter().position(|other| *other == u16::from(symbol));
            let place = place.expect("each symbol has a code") as u32;
            let length = usize::from(length);
            (CODE.first[length] + place - u32::from(CODE.shorter[length]), length)
        };
        let mut bits: Vec<bool> = Vec::new();
        for symbol in text {
            let (code, length) = code_of(*symbol);
            bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
        }
        while !bits.len().is_multiple_of(8) {
            bits.push(true);
        }
        bits.chunks(8)
            .map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | u8::from(*bit)))
            .collect()
    }

    #[test]
    fn the_examples_of_the_standard() {
        // RFC 7541, C.4 and C.6.
        for (code, text) in [
            ("f1e3c2e5f23a6ba0ab90f4ff", "www.example.com"),
            ("a8eb10649cbf", "no-cache"),
            ("25a849e95ba97d7f", "custom-key"),
            ("25a849e95bb8e8b4bf", "custom-value"),
            ("6402", "302"),
            ("aec3771a4b", "private"),
            ("d07abe941054d444a8200595040b8166e082a62d1bff", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("9d29ad171863c78f0b97c8e9ae82ae43d3", "https://www.example.com"),
        ] {
            let code: Vec<u8> = (0..code.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&code[at..at + 2], 16).expect("hex"))
                .collect();
            let mut out = Vec::new();
            assert!(decode(&code, &mut out), "{text}");
            assert_eq!(String::from_utf8_lossy(&out), text);
            assert_eq!(encode(text.as_bytes()), code, "{text}");
        }
    }

    #[test]
    fn every_symbol_comes_back() {
        let all: Vec<u8> = (0..=255).rev().collect();
        let mut out = Vec::new();
        assert!(decode(&encode(&all), &mut out));
        assert_eq!(out, all);
    }

    #[test]
    fn wrong_padding_and_the_end_of_string_are_refused() {
        // "0" is 00000: the rest of a byte must be ones, and there may be no byte of nothing else.
        for (code, is_right) in [
            (&[0b0000_0111u8][..], true),
            (&[0b0000_0000], false),
            (&[0b0000_0110], false),
            (&[0b0000_0111, 0xFF], false),
            (&[0xFF, 0xFF, 0xFF, 0xFC], false),
            (&[0xFF, 0xFF, 0xFF, 0xFF], false),
            (&[], true),
        ] {
            assert_eq!(decode(code, &mut Vec::new()), is_right, "{code:?}");
        }
    }
}
