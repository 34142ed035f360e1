use super::*;

fn parse(text: &str) -> Result<Element, String> {
    let source = Source {
        name: "f",
        bytes: text.as_bytes(),
    };
    read(source).map_err(|problem| problem.to_string())
}

#[test]
fn a_file_as_people_write_it_is_read() {
    let root = parse(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE scenario SYSTEM \"sipp.dtd\">\n<!-- ---- -- x -->\n\
         <scenario name='a &amp; b &x'>\n <send retrans = \"5\"><![CDATA[ <&> ]]></send>\n <x/>\n</scenario>\n<!-- -->",
    )
    .unwrap();
    assert_eq!(root.name, "scenario");
    assert_eq!(root.attributes[0].value, b"a & b &x");
    assert_eq!(root.children.len(), 2);
    assert_eq!(root.children[0].cdata.as_ref().unwrap().bytes, b" <&> ");
    assert_eq!(root.children[0].attributes[0].value, b"5");
}

#[test]
fn mistakes_have_a_place() {
    for (text, place) in [
        ("", "f:1:1: "),
        ("x", "f:1:1: text"),
        ("<a>\n  </b>", "f:2:3: </a> is expected"),
        ("<a>\n <b>", "f:2:2: <b> is not ended"),
        ("<a x>", "f:1:5: write x="),
        ("<a x='1' x='2'/>", "f:1:10: the attribute \"x\""),
        ("<a x='1>", "f:1:7: the value"),
        ("<a>hello</a>", "f:1:4: text in <a>"),
        ("<a><![CDATA[ </a>", "f:1:13: a CDATA"),
        ("<a/>\n<b/>", "f:2:1: something follows"),
        (
            "<!DOCTYPE a [ <!ENTITY b 'c'> ]><a/>",
            "f:1:1: a document type",
        ),
        ("<a><!-- </a>", "f:1:4: a comment"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.starts_with(place), "{text:?}: {error}");
    }
}

#[test]
fn depth_is_bounded() {
    let text = "<a>".repeat(1_000);
    assert!(parse(&text).unwrap_err().contains("too many"));
}
