use super::*;

fn read(text: &str) -> (Vec<Sample>, u64) {
    let mut samples = Samples::new(text.as_bytes());
    let mut found = Vec::new();
    while let Some(sample) = samples.next().unwrap() {
        found.push(sample);
    }
    (found, samples.odd_lines)
}

fn frame(line: &str) -> (String, String) {
    let frame = parse_frame(line).unwrap();
    (frame.symbol, frame.image)
}

#[test]
fn a_sample_is_a_thread_and_its_frames() {
    let (samples, odd) = read(
        "worker-0  1938/1939  84650.291119:    1001001 \n\
         \tffffffff821f31fd exc_page_fault ([kernel.kallsyms])\n\
         \t           124e9 memcpy@@GLIBC_2.14 (/usr/lib/libc.so.6)\n\
         \n\
         dns  1938/1940  84650.300623:    1001001 \n\
         \t          23ff12 [unknown] (/usr/lib/x86_64-linux-gnu/libcrypto.so.3)\n",
    );
    assert_eq!(odd, 0);
    let [first, second] = samples.as_slice() else {
        panic!("{samples:?}");
    };
    assert_eq!((first.thread.as_str(), first.pid), ("worker-0", 1_938));
    assert_eq!(first.period_ns, 1_001_001);
    let leaf = first.leaf().unwrap();
    assert_eq!(leaf.symbol, "exc_page_fault");
    assert_eq!(leaf.image, "[kernel.kallsyms]");
    assert_eq!(first.frames[1].symbol, "memcpy");
    let leaf = second.leaf().unwrap();
    assert_eq!((leaf.address, leaf.symbol.as_str()), (0x23_ff12, UNKNOWN));
    assert_eq!(leaf.image, "libcrypto.so.3");
    assert_eq!(leaf.path, "/usr/lib/x86_64-linux-gnu/libcrypto.so.3");
}

#[test]
fn a_frame_may_stand_in_the_line() {
    let (samples, odd) = read(
        "             cat  1939/1939  84650.293001:    1001001  ffffffff816e8b4e file_close_fd_locked ([kernel.kallsyms])\n\
                      cat  1940/1940  84650.294381:    1001001      55d0c0ffee00 main (/bin/cat)\n",
    );
    assert_eq!(odd, 0);
    assert_eq!(samples.len(), 2);
    assert_eq!(samples[1].leaf().unwrap().image, "cat");
}

#[test]
fn names_of_threads_hold_anything() {
    for name in [
        "a b",
        "1/2 3",
        "x/y",
        "10/10 5.5:",
        "",
        "Worker #1 (2/3)",
        "é/ü",
    ] {
        let line = format!("{name:>16}  77/78  1.000001:    1001001 ");
        let sample = parse_header(&line).unwrap_or_else(|| panic!("{name}"));
        assert_eq!((sample.thread.as_str(), sample.pid), (name, 77), "{name}");
    }
}

#[test]
fn symbols_hold_spaces_and_brackets() {
    let cases = [
        (
            "1f0 std::function<void (int)>::operator()(int) const (/usr/lib/libx.so)",
            "std::function<void (int)>::operator()(int) const",
            "libx.so",
        ),
        (
            "1f0 std::map<int, std::vector<(anonymous namespace)::T> >::find(int const&) (/a b/my lib.so)",
            "std::map<int, std::vector<(anonymous namespace)::T> >::find(int const&)",
            "my lib.so",
        ),
        ("1f0 [unknown] ([unknown])", UNKNOWN, UNKNOWN),
        ("1f0 f (/opt/x (deleted))", "f", "x"),
        ("1f0 g (/memfd:jit (deleted))", "g", "memfd:jit"),
        ("1f0 [unknown] (//anon)", UNKNOWN, "[anon]"),
        (
            "ffffffffc0001000 [unknown] ([unknown])",
            UNKNOWN,
            "[kernel unknown]",
        ),
        (
            "ffffffffc0001000 nft_do_chain ([nf_tables])",
            "nft_do_chain",
            "[kernel nf_tables]",
        ),
        (
            "ffffffffc0001000 f (/lib/modules/6/x.ko.xz)",
            "f",
            "[kernel x.ko.xz]",
        ),
        ("7ffd clock_gettime ([vdso])", "clock_gettime", "[vdso]"),
        (
            "1f0 <&T as core::fmt::Debug>::fmt::h0123456789abcdef (/usr/bin/signet)",
            "<&T as core::fmt::Debug>::fmt",
            "signet",
        ),
        ("1f0 a::h0123 (/b)", "a::h0123", "b"),
        ("1f0 operator@ (/b)", "operator", "b"),
        ("1f0", UNKNOWN, UNKNOWN),
        ("1f0 only_a_name", "only_a_name", UNKNOWN),
    ];
    for (line, symbol, image) in cases {
        assert_eq!(frame(line), (symbol.to_owned(), image.to_owned()), "{line}");
    }
}

#[test]
fn the_mark_at_the_end_of_a_walk_is_no_frame() {
    let (samples, odd) =
        read("w  1/1  1.0:  5 \n\t 10 f (/x)\n\tffffffffffffffff [unknown] ([unknown])\n");
    assert_eq!((samples[0].frames.len(), odd), (1, 0));
}

#[test]
fn an_inlined_frame_has_the_file_around_it() {
    let (samples, _) = read(
        "w  1/1  1.0:  5 \n\t  10 inner (inlined)\n\t  10 middle (inlined)\n\t  10 outer (/x/signet)\n",
    );
    let leaf = samples[0].leaf().unwrap();
    assert_eq!(
        (leaf.symbol.as_str(), leaf.image.as_str()),
        ("inner", "signet")
    );
}

#[test]
fn what_is_neither_is_counted() {
    let (samples, odd) = read(
        "# a comment\n\n\tffff nobody (/x)\nw  1/1  1.0:  5 \n\tno address\n\t 10 f (/x)\nw 2/2 2.0: 6 \n\n",
    );
    assert_eq!(samples.len(), 1);
    assert_eq!(samples[0].frames.len(), 1);
    assert_eq!(odd, 4);
}

#[test]
fn long_lines_and_stacks_are_cut() {
    let long = "x".repeat(200_000);
    let mut text = format!("w  1/1  1.0:  5 \n\t 10 {long} (/x)\n");
    for _ in 0..1_000 {
        text.push_str("\t 10 f (/x)\n");
    }
    text.push_str("\nw  1/2  2.0:  6 \n");
    let (samples, _) = read(&text);
    assert_eq!(samples.len(), 2);
    assert_eq!(samples[0].frames.len(), FRAMES_MAX);
    assert_eq!(samples[0].frames[0].symbol.len(), NAME_BYTES_MAX);
}

proptest::proptest! {
    #[test]
    fn no_input_is_too_odd(text in "[ -~\t\n\u{e4}/:().0-9a-f]{0,400}") {
        let mut samples = Samples::new(text.as_bytes());
        while let Some(sample) = samples.next().unwrap() {
            let _ = sample.leaf();
        }
    }
}
