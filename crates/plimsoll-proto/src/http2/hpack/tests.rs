//! The examples of RFC 7541, appendix C, and what must be refused.

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex"))
        .collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<String, HpackError> {
    let mut lines = Vec::new();
    decoder.decode(block, &mut Vec::new(), &mut |name, value| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        lines.push(format!("{}: {}", text(name), text(value)));
    })?;
    Ok(lines.join("|"))
}

/// Blocks of one connection: what each says, and the size of the table after it.
#[track_caller]
fn assert_story(decoder: &mut Decoder, story: &[(&str, &str, usize)]) {
    for (block, lines, table_bytes) in story {
        assert_eq!(decode(decoder, &hex(block)).as_deref(), Ok(*lines));
        assert_eq!(decoder.table_bytes(), *table_bytes, "after {lines}");
    }
}

#[test]
fn single_fields() {
    // RFC 7541, C.2.
    for (block, line, table_bytes) in [
        (
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            "custom-key: custom-header",
            55,
        ),
        ("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path", 0),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret", 0),
        ("82", ":method: GET", 0),
    ] {
        assert_story(&mut Decoder::default(), &[(block, line, table_bytes)]);
    }
}

#[test]
fn requests_of_one_connection() {
    let lines = [
        ":method: GET|:scheme: http|:path: /|:authority: www.example.com",
        ":method: GET|:scheme: http|:path: /|:authority: www.example.com|cache-control: no-cache",
        ":method: GET|:scheme: https|:path: /index.html|:authority: www.example.com|\
         custom-key: custom-value",
    ];
    // RFC 7541, C.3 without and C.4 with the Huffman code.
    for blocks in [
        [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ],
        [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ],
    ] {
        let story =
            [(blocks[0], lines[0], 57), (blocks[1], lines[1], 110), (blocks[2], lines[2], 164)];
        assert_story(&mut Decoder::default(), &story);
    }
}

#[test]
fn responses_with_a_table_that_evicts() {
    let first = ":status: 302|cache-control: private|date: Mon, 21 Oct 2013 20:13:21 GMT|\
                 location: https://www.example.com";
    let second = ":status: 307|cache-control: private|date: Mon, 21 Oct 2013 20:13:21 GMT|\
                  location: https://www.example.com";
    let third = ":status: 200|cache-control: private|date: Mon, 21 Oct 2013 20:13:22 GMT|\
                 location: https://www.example.com|content-encoding: gzip|set-cookie: \
                 foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
    // RFC 7541, C.6, where the table has 256 bytes.
    let mut decoder = Decoder::default();
    decoder.set_size(256).expect("smaller than the most");
    let story = [
        (
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b \
             ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
            first,
            222,
        ),
        ("4883 640e ffc1 c0bf", second, 222),
        (
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad \
             94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 \
             65c0 03ed 4ee5 b106 3d50 07",
            third,
            215,
        ),
    ];
    assert_story(&mut decoder, &story);
}

#[test]
fn numbers() {
    // RFC 7541, C.1.
    for (number, bits, bytes) in
        [(10, 5, &[10u8][..]), (1337, 5, &[0x1f, 0x9a, 0x0a]), (42, 8, &[42])]
    {
        let mut out = Vec::new();
        write_number(&mut out, 0, bits, number);
        assert_eq!(out, bytes);
        assert_eq!(Fields { rest: bytes, began: false }.number(bits), Ok(number));
    }
}

#[test]
fn what_is_written_is_read_and_adds_nothing() {
    let given = [
        (":method", "GET"),
        (":status", "204"),
        (":path", "/a?b"),
        ("x-own", ""),
        ("accept-encoding", "gzip, deflate"),
        ("user-agent", "u"),
    ];
    let mut block = Vec::new();
    for (name, value) in given {
        write_field(&mut block, name, value);
    }
    let mut decoder = Decoder::default();
    let lines: Vec<_> = given.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(decode(&mut decoder, &block), Ok(lines.join("|")));
    assert_eq!(decoder.table_bytes(), 0);
    assert_eq!(block[..2], [0x82, 0x89]);
}

#[test]
fn malformed_blocks() {
    for (block, error) in [
        ("80", HpackError::Index),
        ("be", HpackError::Index),
        ("ff ff ff ff ff 0f", HpackError::Number),
        ("04", HpackError::Short),
        ("04 05 61", HpackError::Short),
        ("04 81 00", HpackError::Huffman),
        ("82 20", HpackError::TableSize),
        // 4097.
        ("3f e2 1f", HpackError::TableSize),
    ] {
        assert_eq!(decode(&mut Decoder::default(), &hex(block)), Err(error), "{block}");
    }
}

#[test]
fn one_large_entry_named_often_is_refused() {
    let mut block = vec![0x40, 1, b'a', 0x7f, 0x81, 0x1e];
    block.extend_from_slice(&[b'v'; 127 + 0x81 - 0x80 + (0x1e << 7)]);
    let mut decoder = Decoder::default();
    assert!(decode(&mut decoder, &block).is_ok());
    assert!(decoder.table_bytes() > 3_000);
    assert_eq!(decode(&mut decoder, &[0xbe; 64]), Err(HpackError::TooLarge));
}
