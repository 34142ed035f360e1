use super::super::rules::Rules;
use super::super::sample::Samples;
use super::super::tally::Tally;
use super::super::{PROFILE_FORMAT, PROFILE_VERSION, Source, Target};
use super::*;

const TEXT: &str = "\
worker-0  1/1  1.0:  3000000 \n\
\tffffffff81000000 tcp_sendmsg ([kernel.kallsyms])\n\
\t 20 sip_net::net::Net::send (/x/signet)\n\
\t 30 std::sys::thread::start (/x/signet)\n\
\n\
worker-0  1/1  1.1:  1000000 \n\
\t 20 sip_net::net::Net::send (/x/signet)\n\
\t 30 std::sys::thread::start (/x/signet)\n\
\n\
a;b \"c\"  1/2  1.2:  1000000 \n\
\t 40 <&T as core::fmt::Debug>::fmt (/x/signet)\n";

fn found(text: &str, used_ns: u64) -> (Stacks, Profile) {
    let rules = Rules::default();
    let target = Target {
        name: "server".to_owned(),
        system: "signet".to_owned(),
        pid: 1,
    };
    let mut tally = Tally::new(&rules, &[target], HashMap::new());
    tally.stacks = Some(Stacks::default());
    let mut samples = Samples::new(text.as_bytes());
    while let Some(sample) = samples.next().unwrap() {
        tally.add(&sample);
    }
    let profile = Profile {
        format: PROFILE_FORMAT.to_owned(),
        version: PROFILE_VERSION,
        source: Source::Perf,
        why_not_perf: None,
        window_ns: 1_000_000_000,
        frequency_hz: Some(999),
        calls: None,
        processes: tally.profiles(&[Some(used_ns)]),
        doubts: Vec::new(),
    };
    (tally.stacks.unwrap(), profile)
}

#[test]
fn stacks_fold_to_a_line_each() {
    let (stacks, _) = found(TEXT, 10_000_000);
    assert_eq!(
        stacks.folded(),
        "server;a:b \"c\";<&T as core::fmt::Debug>::fmt 1000\n\
         server;worker-0;std::sys::thread::start;sip_net::net::Net::send 1000\n\
         server;worker-0;std::sys::thread::start;sip_net::net::Net::send;tcp_sendmsg 3000\n"
    );
}

#[test]
fn a_box_is_as_wide_as_the_time_under_it() {
    let (stacks, profile) = found(TEXT, 10_000_000);
    let sums = stacks.scaled(&profile);
    assert!((sums[0] - 10e6).abs() < 1.0);
    let drawn = stacks.layout(&sums);
    let width = |label: &str| {
        let found = drawn.iter().find(|d| stacks.nodes[d.node].label == label);
        found.map(|d| (d.width_px.round() as u32, d.row))
    };
    assert_eq!(width("server"), Some((1_180, 0)));
    assert_eq!(width("worker-0"), Some((944, 1)));
    assert_eq!(width("tcp_sendmsg"), Some((708, 4)));
}

#[test]
fn the_picture_is_whole_by_itself() {
    let (stacks, profile) = found(TEXT, 10_000_000);
    let svg = stacks.svg(&profile.with_calls(100.0));
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("prefers-color-scheme: dark"));
    assert!(
        svg.contains(
            "<title>tcp_sendmsg ([kernel.kallsyms]): 60.0 us a call, 60.0 % of its process</title>"
        ),
        "{svg}"
    );
    assert!(svg.contains("&lt;&amp;T as core::fmt::Debug&gt;::fmt"));
    assert!(svg.contains("class=\"kernel\""));
    for foreign in ["<script", "href", "url(", "<&"] {
        assert!(!svg.contains(foreign), "{foreign}");
    }
    assert_eq!(svg.matches("<g>").count(), svg.matches("</g>").count());
}

#[test]
fn nothing_sampled_is_an_empty_picture() {
    let (stacks, profile) = found("", 10_000_000);
    assert!(stacks.svg(&profile).ends_with("</svg>\n"));
    assert_eq!(stacks.folded(), "");
}

#[test]
fn frames_and_boxes_are_bounded() {
    let mut text = String::new();
    for stack in 0..700 {
        text.push_str("w  1/1  1.0:  1000000 \n");
        for frame in 0..100 {
            text.push_str(&format!("\t 10 f{stack}_{frame} (/x/signet)\n"));
        }
        text.push('\n');
    }
    let (stacks, profile) = found(&text, 1_000_000_000);
    assert_eq!(stacks.nodes.len(), NODES_MAX);
    let sums = stacks.scaled(&profile);
    assert!((sums[0] - 1e9).abs() < 1_000.0);
    assert_eq!(stacks.layout(&sums).len(), BOXES_MAX);
}

#[test]
fn text_is_cut_to_its_box() {
    assert_eq!(cut("abcdefgh", 8), "abcdefgh");
    assert_eq!(cut("abcdefgh", 7), "abcdef\u{2026}");
    assert_eq!(cut("abcdefgh", 3), "");
    assert_eq!(
        cut("\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}", 4),
        "\u{e4}\u{e4}\u{e4}\u{2026}"
    );
    assert_eq!(escape("a\u{1}<"), "a\u{fffd}&lt;");
}
