use super::*;

fn parse(text: &str) -> Result<Element, String> {
    parse_with(text).map(|(root, _)| root)
}

/// The outermost element, and the places and words of the warnings.
fn parse_with(text: &str) -> Result<(Element, Vec<String>), String> {
    let source = Source {
        name: "f",
        bytes: text.as_bytes(),
    };
    let mut warnings = Warnings::default();
    let root = read(source, &mut warnings).map_err(|problem| problem.to_string())?;
    let warnings = warnings.finish().iter().map(ToString::to_string).collect();
    Ok((root, warnings))
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
        ("x", "f:1:2: the file holds no element"),
        ("<a>\n  </b>", "f:2:3: </a> is expected"),
        ("<a>\n <b>", "f:2:2: <b> is not ended"),
        ("<a x='1>", "f:1:1: <a> is not ended, or a quotation mark"),
        (
            "<a x=\"1\\\"/>",
            "f:1:1: <a> is not ended, or a quotation mark",
        ),
        ("<a><![CDATA[ </a>", "f:1:13: a CDATA"),
        ("<a/>\n<b/>", "f:2:1: something follows"),
        ("<a><!-- </a>", "f:1:4: a comment"),
        ("<!DOCTYPE a [ <!ENTITY b 'c'>", "f:1:13: a document type"),
        ("<a <b/>", "f:1:1: <a> is not ended"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.starts_with(place), "{text:?}: {error}");
    }
}

#[test]
fn what_sipp_passes_over_is_a_warning() {
    for (text, warnings) in [
        ("<a/>", &[][..]),
        ("x <a/> y", &["f:1:1: text", "f:1:8: text"]),
        ("<a>hello<b/>there</a>", &["f:1:4: text", "f:1:13: text"]),
        (
            "<a x='1' x='2'/>",
            &["f:1:10: the attribute \"x\" is here twice"],
        ),
        (
            "<a x>",
            &["f:1:4: this is no attribute", "f:1:6: </a> is missing"],
        ),
        ("<a/></b>", &["f:1:5: an end tag", "f:1:7: text"]),
        (
            "<!DOCTYPE a [ <!ENTITY b 'c'> <!ENTITY d SYSTEM \"e\"> ]><a/>",
            &["f:1:1: the declarations"],
        ),
        (
            "<a><![CDATA[1]]><![CDATA[2]]></a>",
            &["f:1:26: a second CDATA section"],
        ),
    ] {
        let (root, told) = parse_with(text).unwrap();
        assert_eq!(root.name, "a", "{text}");
        assert_eq!(told.len(), warnings.len(), "{text}: {told:?}");
        for (told, warning) in told.iter().zip(warnings) {
            assert!(told.starts_with(warning), "{text}: {told}");
        }
    }
}

#[test]
fn quotation_marks_in_values_end_them_unless_a_backslash_stands_before() {
    let values = |text: &str| -> Vec<(String, String)> {
        let root = parse(text).unwrap();
        root.attributes
            .iter()
            .map(|a| {
                (
                    a.name.clone(),
                    String::from_utf8_lossy(&a.value).into_owned(),
                )
            })
            .collect()
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        values(r#"<a x="one \"two\" \\ \d\n" y='it\'s "so"'/>"#),
        [pair("x", "one \"two\" \\ \\d\n"), pair("y", "it's \"so\"")]
    );
    // Where marks come in pairs, what is between them is lost and the tag goes on.
    assert_eq!(
        values(r#"<a x="sip:"(.*)"@" y="2"/>"#),
        [pair("x", "sip:"), pair("y", "2")]
    );
    assert_eq!(
        values(r#"<a x=From:" y="1" z="2"/> "/>"#),
        [pair("x", "rom:"), pair("y", "1"), pair("z", "2")]
    );
    assert_eq!(
        values("<a x=\"a > b\" <!-- y=\"1\" --> z=\"/>\"/>").len(),
        2
    );
}

#[test]
fn depth_is_bounded() {
    let text = "<a>".repeat(1_000);
    assert!(parse(&text).unwrap_err().contains("too many"));
}
