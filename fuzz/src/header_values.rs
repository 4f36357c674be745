//! Values in MCP's headers.

use countersign::http::head::{HeadLimits, HeadWriter, Method, Parsed, parse_request};
use countersign::mcp::header::{decode, encode};

/// Any bytes as the value of a header, and any text as a value to be sent in one:
///
/// - what is read from a header is read again from the header that it would be sent in;
/// - a text is sent in a form that our own writer takes, and comes back as it was, through a head as well.
pub fn header_values(input: &[u8]) {
    if let Some(value) = decode(input) {
        assert_eq!(decode(encode(&value).as_bytes()).as_ref(), Some(&value));
    }
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let sent = encode(text);
    assert!(
        sent.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) && sent.trim() == sent,
        "{sent:?}"
    );
    assert_eq!(decode(sent.as_bytes()).as_deref(), Some(text));

    let mut writer = HeadWriter::request(&Method::Post, "/mcp", "localhost").expect("a head");
    writer.header("Mcp-Name", &sent).expect("a value");
    let limits = HeadLimits {
        bytes: usize::MAX,
        ..HeadLimits::default()
    };
    let head = writer.finish();
    match parse_request(&head, &limits) {
        Ok(Parsed::Complete { head, .. }) => {
            let read = head.headers.get("mcp-name").expect("the header");
            assert_eq!(decode(read).as_deref(), Some(text));
        }
        // Every number of bytes above this counts as this.
        _ => assert!(head.len() >= usize::from(u16::MAX)),
    }
}
