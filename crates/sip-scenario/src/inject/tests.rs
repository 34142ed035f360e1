use super::*;

fn field(file: &InjectionFile, line: u64, column: usize) -> String {
    let mut out = Vec::new();
    file.write_field(line, column, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn lines_and_fields_are_counted_from_zero() {
    let file = InjectionFile::parse("f", b"SEQUENTIAL\n#x\na;b\r\n#\nc;;d\n").unwrap();
    assert_eq!((file.line_count(), file.columns()), (2, 3));
    assert_eq!(field(&file, 0, 1), "b");
    assert_eq!(field(&file, 0, 2), "");
    assert_eq!(field(&file, 1, 1), "");
    assert_eq!(field(&file, 1, 2), "d");
    // There is no such line.
    assert_eq!(field(&file, 2, 0), "");
}

#[test]
fn a_line_without_a_byte_ends_the_file() {
    let file = InjectionFile::parse("f", b"SEQUENTIAL\na\n\nb\n").unwrap();
    assert_eq!(file.line_count(), 1);
    let warning = file.warnings()[0].to_string();
    assert!(
        warning.starts_with("f:3:1: an empty line ends"),
        "{warning}"
    );
    let file = InjectionFile::parse("f", b"SEQUENTIAL\na\n\n\n").unwrap();
    assert!(file.line_count() == 1 && file.warnings().is_empty());
}

#[test]
fn a_line_with_only_a_carriage_return_is_one_with_an_empty_field() {
    for text in [
        &b"SEQUENTIAL\r\na;1\r\n\r\nb;2\r\n"[..],
        b"SEQUENTIAL\na;1\n\r\nb;2\n",
    ] {
        let file = InjectionFile::parse("f", text).unwrap();
        assert!(file.line_count() == 3 && file.warnings().is_empty());
        assert_eq!(
            (field(&file, 0, 1), field(&file, 1, 0)),
            ("1".into(), "".into())
        );
        assert_eq!(field(&file, 2, 1), "2");
    }
}

#[test]
fn the_order_may_stand_anywhere_in_the_first_line() {
    for (line, order, warns) in [
        (&b"RANDOM"[..], Order::Random, false),
        (b"\xef\xbb\xbfSEQUENTIAL", Order::Sequential, false),
        (b" USER ", Order::User, false),
        (b"USERS", Order::User, false),
        (b"# SEQUENTIAL of old", Order::Sequential, true),
        (b"SEQUENTIAL;", Order::Sequential, true),
        (b"SEQUENTIAL,USER", Order::Sequential, false),
        (b"USER SEQUENTIAL RANDOM", Order::Random, true),
        (b"SEQUENTIAL,FOO=1", Order::Sequential, true),
    ] {
        let text = [line, b"\na\n"].concat();
        let file = InjectionFile::parse("f", &text).unwrap();
        let shown = String::from_utf8_lossy(line);
        assert_eq!(file.order(), order, "{shown}");
        assert_eq!(!file.warnings().is_empty(), warns, "{shown}");
    }
    let file = InjectionFile::parse("f", b"SEQUENTIAL,FOO=1\na\n").unwrap();
    let warning = file.warnings()[0].to_string();
    assert!(
        warning.starts_with("f:1:12: \"FOO=1\" is passed over"),
        "{warning}"
    );
}

#[test]
fn calls_get_lines_in_order() {
    let mut random = Random::new(1);
    let mut file = InjectionFile::parse("f", b"SEQUENTIAL\na\nb\nc\n").unwrap();
    let lines: Vec<u64> = (0..4).map(|_| file.next_line(None, &mut random)).collect();
    assert_eq!(lines, [0, 1, 2, 0]);
    let mut file = InjectionFile::parse("f", b"USER\na\nb\nc\n").unwrap();
    assert_eq!(file.next_line(Some(3), &mut random), 2);
    let mut file = InjectionFile::parse("f", b"RANDOM\na\nb\nc\n").unwrap();
    let mut seen = [false; 3];
    for _ in 0..200 {
        seen[usize::try_from(file.next_line(None, &mut random)).unwrap()] = true;
    }
    assert_eq!(seen, [true; 3]);
}

#[test]
fn a_pattern_makes_lines() {
    let text = b"SEQUENTIAL,PRINTF=1000,PRINTFOFFSET=10,PRINTFMULTIPLE=2\nu%04d;%d%%;%3d\n";
    let file = InjectionFile::parse("f", text).unwrap();
    assert_eq!(file.line_count(), 1_000);
    assert_eq!(field(&file, 3, 0), "u0016");
    assert_eq!(field(&file, 3, 1), "16%");
    assert_eq!(field(&file, 3, 2), " 16");
    assert_eq!(field(&file, 1_000, 1), "");
    let text = b"SEQUENTIAL,PRINTF=1000000000\nu%d\n";
    let mut file = InjectionFile::parse("f", text).unwrap();
    assert!(file.set_index(0).unwrap_err().contains("from a pattern"));
}

#[test]
fn an_index_finds_lines() {
    let mut file = InjectionFile::parse("dir/f", b"SEQUENTIAL\na;1\nb;2\n").unwrap();
    file.set_index(1).unwrap();
    assert_eq!(file.lookup(b"2"), Some(1));
    assert_eq!(file.lookup(b"3"), None);
    assert!(file.set_index(2).is_err());
    assert!(file.is_named("f") && file.is_named("dir/f") && !file.is_named("x/f"));
}

#[test]
fn mistakes_have_a_place() {
    for (text, place) in [
        (&b""[..], "f:1:1: "),
        (b"a;b\n", "f:1:1: write SEQUENTIAL"),
        (b"SEQUENTIAL\n", "f:2:1: the file has no line"),
        (b"SEQUENTIAL,PRINTF=x\na\n", "f:1:19: a number"),
        (b"SEQUENTIAL,PRINTF=0\na\n", "f:1:1: PRINTF= and"),
        (b"SEQUENTIAL,PRINTFOFFSET=1\na\n", "f:1:1: PRINTF= and"),
        (b"RANDOM,PRINTF=5\na;b%s\n", "f:2:4: only %d"),
        (b"RANDOM\na;b\0\n", "f:2:4: a zero byte"),
    ] {
        let error = InjectionFile::parse("f", text).unwrap_err().to_string();
        assert!(error.starts_with(place), "{error}");
    }
}
