//! How a run ends, and with which code.

#![allow(clippy::unwrap_used)]

mod support;

use std::net::UdpSocket;
use std::time::Duration;

use sip_net::testing::uninterrupted;
use support::{Folder, await_port, free_port, free_ports};

/// A scenario that nobody answers.
const ALONE: &str = "<?xml version=\"1.0\"?><scenario name=\"alone\"><send><![CDATA[
  OPTIONS sip:[service]@[remote_ip] SIP/2.0
  Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
  From: <sip:a@b>;tag=1
  To: <sip:c@d>
  Call-ID: [call_id]
  CSeq: [cseq] OPTIONS
  Content-Length: 0
]]></send><recv response=\"200\" timeout=\"100\"/></scenario>";

#[test]
fn what_is_wrong_is_told_before_the_first_packet() {
    let folder = Folder::new();
    folder.write("good.xml", ALONE);
    folder.write("bad.xml", &ALONE.replace("<recv ", "\n  <receive "));
    folder.write(
        "field.xml",
        &ALONE.replace("To: <sip:c@d>", "To: <sip:[field7]@d>"),
    );
    folder.write("bad.csv", "SEQUENCE\na;b\n");
    folder.write("good.csv", "SEQUENTIAL\na;b\n");
    let setdest = "<nop><action><setdest host=\"127.0.0.9\" port=\"9\" protocol=\"tcp\"/></action></nop><send>";
    folder.write("setdest.xml", &ALONE.replace("<send>", setdest));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let remote = socket.local_addr().unwrap();
    for (line, code, what) in [
        ("-sf bad.xml", 1, "bad.xml:10:3: <receive> is no step"),
        ("-sf none.xml", 1, "-sf none.xml: "),
        (
            "-sf good.xml -inf bad.csv",
            1,
            "bad.csv:1:1: write SEQUENTIAL",
        ),
        ("-sf field.xml -inf good.csv", 1, "field.xml:5:13: [field7]"),
        ("-sf field.xml", 1, "field.xml:5:13: [field7] without"),
        ("-sf good.xml -infindex good.csv 0", 1, "-infindex good.csv"),
        (
            "-sf good.xml -inf good.csv -infindex good.csv 5",
            1,
            "-infindex good.csv 5",
        ),
        ("-sf good.xml -foo", 1, "-foo is no option"),
        ("-sf good.xml -oocsf x", 1, "-oocsf is not covered"),
        (
            "-sf good.xml -3pcc 127.0.0.1:9",
            1,
            "-3pcc and -slave_cfg: the scenario has neither",
        ),
        ("-sn regexp", 1, "-sn regexp is not covered"),
        ("-sf good.xml -cp 8888", 1, "-cp is not covered"),
        ("-sf good.xml -reconnect_close no", 1, "-reconnect_close no"),
        (
            "-sf good.xml -users 5 -l 9",
            1,
            "-l does not go with -users",
        ),
        ("-sf good.xml -set x 1", 1, "good.xml:1:22: -set x"),
        ("-sf good.xml -t t9", 1, "-t t9 is no transport"),
        (
            "-sf setdest.xml -t t1",
            1,
            "setdest.xml:1:58: <setdest> is not covered over TCP",
        ),
        (
            "-sn uas -t t1 -rsa 127.0.0.1:9",
            1,
            "-rsa is not covered on the called side over TCP",
        ),
    ] {
        let line = format!("{remote} -i 127.0.0.1 -m 1 {line}");
        let ended = folder.ours("run", &line).wait();
        assert_eq!(ended.code, code, "{line}: {ended:?}");
        assert!(ended.stderr.starts_with(what), "{line}: {}", ended.stderr);
        let received = socket.recv(&mut [0; 10]);
        assert_eq!(received.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
    let ended = folder.ours("run", "-sf good.xml -m 1 -i 127.0.0.1").wait();
    assert_eq!(ended.code, 255);
    assert!(
        ended.stderr.contains("give the remote host"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_check_only_reads_and_tells_what_has_no_meaning() {
    let folder = Folder::new();
    folder.write("good.xml", ALONE);
    folder.write(
        "odd.xml",
        &ALONE.replace("<recv ", "\n  stray words <recv td=\"1\" "),
    );
    let media = "<nop><action><exec play_pcap_audio=\"a.pcap\"/></action></nop><send>";
    folder.write("media.xml", &ALONE.replace("<send>", media));
    // No remote host: nothing is sent.
    let ended = folder.ours("good", "-sf good.xml -check").wait();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
    assert_eq!(ended.stdout, "good: 2 steps, can be played\n");
    let recv = "<recv response=\"200\" timeout=\"100\"/>";
    folder.write("one.xml", &ALONE.replace(recv, ""));
    let ended = folder.ours("one", "-sf one.xml -check").wait();
    assert_eq!(ended.stdout, "one: 1 step, can be played\n", "{ended:?}");
    let ended = folder.ours("odd", "-sf odd.xml -check").wait();
    assert_eq!(ended.code, 0, "{ended:?}");
    let warnings: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("warning: odd.xml:10:3: text is passed over"));
    assert!(warnings[1].starts_with("warning: odd.xml:10:21: the attribute \"td\""));
    let ended = folder.ours("media", "-sf media.xml -check").wait();
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("-no_media plays the scenario"));
    let ended = folder
        .ours("media", "-sf media.xml -check -no_media")
        .wait();
    assert_eq!(ended.code, 0, "{ended:?}");
    let ended = folder.ours("bad", "-sf none.xml -check").wait();
    assert_eq!(ended.code, 1, "{ended:?}");
}

#[test]
fn an_index_is_for_the_file_or_for_the_end_of_its_path() {
    let folder = Folder::new();
    std::fs::create_dir(folder.0.join("sub")).unwrap();
    folder.write("sub/users.csv", "SEQUENTIAL\nann;1\nben;2\n");
    folder.write(
        "look.xml",
        &ALONE
            .replace(
                "<send>",
                "<nop><action><lookup assign_to=\"n\" file=\"users.csv\" key=\"ben\"/></action></nop><send>",
            )
            .replace("To: <sip:c@d>", "To: <sip:c@d>\n  X-Field: [field1 line=\"[$n]\"]"),
    );
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(support::DEADLINE)).unwrap();
    let remote = socket.local_addr().unwrap();
    for name in ["users.csv", "sub/users.csv"] {
        let line = format!(
            "-sf look.xml {remote} -i 127.0.0.1 -m 1 -inf sub/users.csv -infindex {name} 0"
        );
        let calling = folder.ours("calling", &line);
        let mut bytes = [0; 2_000];
        let (len, _) = uninterrupted(|| socket.recv_from(&mut bytes)).unwrap();
        let text = String::from_utf8_lossy(&bytes[..len]);
        assert!(text.contains("X-Field: 2\r\n"), "{name}: {text}");
        // Nobody answers.
        assert_eq!(calling.wait().code, 1);
    }
    let line = "-sf look.xml -check -inf sub/users.csv -infindex other/users.csv 0";
    let ended = folder.ours("other", line).wait();
    assert_eq!(ended.code, 1, "{ended:?}");
}

#[test]
fn without_a_port_calls_go_to_5060_over_every_transport() {
    let folder = Folder::new();
    for transport in ["u1", "t1", "l1", "ln"] {
        let line = format!(
            "-sn uac 127.0.0.7 -i 127.0.0.1 -t {transport} -m 1 -timeout 100ms -timeout_error"
        );
        let ended = folder.ours("calling", &line).wait();
        assert!(
            ended.stdout.contains("127.0.0.7:5060("),
            "{transport}: {}",
            ended.stdout
        );
    }
}

#[test]
fn what_is_only_shown_is_no_run() {
    let folder = Folder::new();
    for (line, text) in [
        ("-h", "-trace_stat"),
        ("-v", "signet "),
        ("-sd uac", "<scenario"),
    ] {
        let (ours, theirs) = (
            folder.ours("ours", line).wait(),
            folder.sipp("theirs", line).wait(),
        );
        assert_eq!((ours.code, theirs.code), (99, 99), "{line}: {ours:?}");
        assert!(ours.stdout.contains(text), "{line}: {}", ours.stdout);
    }
}

#[test]
fn what_comes_to_the_media_port_goes_back() {
    let folder = Folder::new();
    // Media takes a port and the second after it, and both are opened after the one for SIP.
    let (port, media) = (free_port(), free_ports(3));
    let line = format!("-sn uas -i 127.0.0.1 -p {port} -mp {media} -rtp_echo");
    let mut called = folder.ours("called", &line);
    for port in [port, media, media + 2] {
        await_port(port, &mut called);
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(support::DEADLINE)).unwrap();
    for port in [media, media + 2] {
        socket.send_to(b"a packet", ("127.0.0.1", port)).unwrap();
        let mut bytes = [0; 100];
        let (len, from) = uninterrupted(|| socket.recv_from(&mut bytes)).unwrap();
        assert_eq!((&bytes[..len], from.port()), (&b"a packet"[..], port));
    }
    called.signal("TERM");
    assert_eq!(called.wait().code, 0);
}

#[test]
fn a_taken_port_is_told_from_other_failures() {
    let folder = Folder::new();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let ended = folder
        .ours("run", &format!("-sn uas -i 127.0.0.1 -p {port}"))
        .wait();
    assert_eq!(ended.code, 254, "{ended:?}");
}

#[test]
fn a_failed_call_and_no_call_have_codes_of_their_own() {
    let folder = Folder::new();
    folder.write("alone.xml", ALONE);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = silent.local_addr().unwrap();
    let ended = folder
        .ours(
            "failed",
            &format!("-sf alone.xml {remote} -i 127.0.0.1 -m 3 -r 100"),
        )
        .wait();
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stdout.contains("timeout on recv"), "{}", ended.stdout);
    let ended = folder
        .ours("none", "-sn uas -i 127.0.0.1 -timeout 200ms")
        .wait();
    assert_eq!(ended.code, 97, "{ended:?}");
    let ended = folder
        .ours(
            "error",
            "-sn uas -i 127.0.0.1 -timeout 200ms -timeout_error",
        )
        .wait();
    assert_eq!(ended.code, 255, "{ended:?}");
}

#[test]
fn the_time_is_over_also_when_no_more_calls_are_to_come() {
    let folder = Folder::new();
    folder.write(
        "patient.xml",
        &ALONE.replace(
            "<recv response=\"200\" timeout=\"100\"/>",
            "<recv response=\"200\"/>",
        ),
    );
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = silent.local_addr().unwrap();
    let line = format!("-sf patient.xml {remote} -i 127.0.0.1 -m 1 -timeout 500ms");
    let ended = folder
        .ours("error", &format!("{line} -timeout_error"))
        .wait();
    assert_eq!(ended.code, 255, "{ended:?}");
    assert!(ended.stderr.contains("-timeout_error"), "{}", ended.stderr);
    // Without that word the call may go on, and the code says how it was.
    let mut calling = folder.ours("softly", &line);
    std::thread::sleep(Duration::from_millis(800));
    assert!(!calling.has_ended());
    calling.signal("QUIT");
    assert_eq!(calling.wait().code, 97);
}

#[test]
fn a_line_for_each_user_needs_users_and_lines() {
    let folder = Folder::new();
    folder.write("alone.xml", ALONE);
    folder.write("users.csv", "USER\nann\nben\n");
    folder.write("short.csv", "SEQUENTIAL\nann\n\nben\n");
    let line = "-sf alone.xml -check -inf";
    for (more, code, what) in [
        (
            "users.csv",
            1,
            "-inf users.csv: USER is a line for each user",
        ),
        (
            "users.csv -users 3",
            1,
            "-inf users.csv: 2 lines for the 3 users",
        ),
        ("users.csv -users 2", 0, ""),
        (
            "short.csv",
            0,
            "warning: short.csv:3:1: an empty line ends the file",
        ),
    ] {
        let ended = folder.ours("run", &format!("{line} {more}")).wait();
        assert_eq!(ended.code, code, "{more}: {ended:?}");
        assert!(ended.stderr.starts_with(what), "{more}: {}", ended.stderr);
    }
}

#[test]
fn signals_end_it_softly_and_twice_hard() {
    let folder = Folder::new();
    let port = free_port();
    let mut called = folder.ours("called", &format!("-sn uas -i 127.0.0.1 -p {port}"));
    await_port(port, &mut called);
    called.signal("USR1");
    assert_eq!(called.wait().code, 0);

    let mut called = folder.ours("called", &format!("-sn uas -i 127.0.0.1 -p {port}"));
    await_port(port, &mut called);
    // A call that is far from over.
    let own = free_port();
    let line = format!("-sn uac 127.0.0.1:{port} -i 127.0.0.1 -p {own} -m 1 -d 600000");
    let mut calling = folder.ours("calling", &line);
    // Signals are held from before that on.
    await_port(own, &mut calling);
    support::await_that("the call is up", || {
        let screens = folder.0.join("dumped");
        assert!(!calling.has_ended());
        calling.signal("USR2");
        let file = std::fs::read_dir(&folder.0).unwrap().find_map(|entry| {
            let path = entry.unwrap().path();
            path.to_string_lossy()
                .ends_with("screen.log")
                .then_some(path)
        });
        let text = std::fs::read_to_string(file.unwrap_or(screens)).unwrap_or_default();
        std::thread::sleep(Duration::from_millis(20));
        text.contains("ACK ---------->         1")
    });
    calling.signal("USR1");
    std::thread::sleep(Duration::from_millis(300));
    assert!(!calling.has_ended());
    // Two that are sent before the first is heard are one.
    support::await_that("it ends", || {
        calling.signal("USR1");
        calling.has_ended()
    });
    let ended = calling.wait();
    // The call is neither done nor failed, and the other side is told.
    assert_eq!(ended.code, 97, "{ended:?}");
    called.signal("TERM");
    let ended = called.wait();
    assert!(
        ended.stdout.contains("BYE <----------         1"),
        "{}",
        ended.stdout
    );
}

#[test]
fn signals_that_end_programs_end_a_run_with_open_calls_at_once() {
    let folder = Folder::new();
    for signal in ["TERM", "INT"] {
        for is_ours in [false, true] {
            let port = free_port();
            let line = format!("-sn uas -i 127.0.0.1 -p {port}");
            let mut called = match is_ours {
                true => folder.ours("called", &line),
                false => folder.sipp("called", &line),
            };
            await_port(port, &mut called);
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(support::DEADLINE)).unwrap();
            socket
                .send_to(support::INVITE, ("127.0.0.1", port))
                .unwrap();
            let (len, _) = uninterrupted(|| socket.recv_from(&mut [0; 2_000])).unwrap();
            assert!(len > 0);
            // Nobody will send an ACK.
            called.signal(signal);
            let code = called.wait().code;
            assert_eq!(code, if is_ours { 97 } else { 0 }, "{signal} {is_ours}");
        }
    }
}

#[test]
fn behind_stop_now_no_call_starts_or_finds_another_end() {
    let folder = Folder::new();
    let end = "<nop><action><add assign_to=\"n\" value=\"1\"/>\
               <test assign_to=\"is_first\" variable=\"n\" compare=\"equal\" value=\"1\"/></action></nop>\
               <nop condexec=\"is_first\"><action><exec int_cmd=\"stop_now\"/></action></nop>\
               <nop><action><error message=\"later\"/></action></nop><recv response=\"200\" ";
    let text = ALONE
        .replace("<send>", "<Global variables=\"n\"/><send>")
        .replace("<recv response=\"200\" ", end);
    folder.write("stop.xml", &text);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let remote = socket.local_addr().unwrap();
    let line = format!("-sf stop.xml {remote} -i 127.0.0.1 -users 50");
    let ended = folder.ours("run", &line).wait();
    assert_eq!((ended.code, ended.stderr.as_str()), (97, ""), "{ended:?}");
    let mut count = 0;
    while socket.recv(&mut [0; 2_000]).is_ok() {
        count += 1;
    }
    assert_eq!(count, 1);
}

#[test]
fn a_mistake_is_told_before_the_run_goes_to_the_background() {
    let folder = Folder::new();
    folder.write("good.xml", ALONE);
    folder.write("bad.xml", &ALONE.replace("<recv ", "\n  <receive "));
    folder.write("bad.csv", "SEQUENCE\na;b\n");
    folder.write(
        "odd.xml",
        &ALONE.replace("<recv ", "\n  stray words <recv "),
    );
    for (line, code, what) in [
        ("-sf bad.xml", 1, "bad.xml:10:3: <receive> is no step"),
        ("-sf none.xml", 1, "-sf none.xml: "),
        (
            "-sf good.xml -inf bad.csv",
            1,
            "bad.csv:1:1: write SEQUENTIAL",
        ),
        (
            "-sf odd.xml",
            99,
            "warning: odd.xml:10:3: text is passed over",
        ),
    ] {
        let line = format!("127.0.0.1:9 -i 127.0.0.1 -m 1 -bg {line}");
        let ended = folder.ours("run", &line).wait();
        assert_eq!(ended.code, code, "{line}: {ended:?}");
        assert!(ended.stderr.starts_with(what), "{line}: {}", ended.stderr);
    }
}

#[test]
fn commands_past_a_number_wait_for_a_place() {
    let folder = Folder::new();
    let line = "<exec command=\"sleep 0.3; echo ran >> ran\"/>".repeat(100);
    let nop = format!("<nop><action>{line}</action></nop><send>");
    folder.write("many.xml", &ALONE.replace("<send>", &nop));
    // Longer than any command line may be.
    let text = "<assignstr assign_to=\"t\" value=\"[$t][$t]xxxxxxxxxxxxxxxx\"/>".repeat(13);
    let nop = format!("<nop><action>{text}<exec command=\"echo [$t][$t]\"/></action></nop><send>");
    folder.write(
        "long.xml",
        &ALONE
            .replace("<send>", &nop)
            .replace("<recv response=\"200\" timeout=\"100\"/>", ""),
    );
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = silent.local_addr().unwrap();
    let line = format!("-sf many.xml {remote} -i 127.0.0.1 -m 1");
    let ended = folder.ours("many", &line).wait();
    assert_eq!((ended.code, ended.stderr.as_str()), (1, ""), "{ended:?}");
    support::await_that("every command runs", || {
        let ran = std::fs::read_to_string(folder.0.join("ran"));
        ran.unwrap_or_default().lines().count() == 100
    });
    let line = format!("-sf long.xml {remote} -i 127.0.0.1 -m 1");
    let ended = folder.ours("long", &line).wait();
    assert_eq!(ended.code, 255, "{ended:?}");
    assert!(
        ended.stderr.starts_with("the command 'echo xxxx")
            && ended.stderr.contains("was not run: "),
        "{}",
        ended.stderr
    );
}

#[test]
fn in_the_background_the_first_process_is_done_at_once() {
    let folder = Folder::new();
    let port = free_port();
    let ended = folder
        .ours(
            "parent",
            &format!("-sn uas -bg -i 127.0.0.1 -p {port} -timeout 3s"),
        )
        .wait();
    assert_eq!(ended.code, 99, "{ended:?}");
    let pid = ended.stdout.trim().strip_prefix("Background mode - PID=[");
    let pid: u32 = pid.unwrap().strip_suffix(']').unwrap().parse().unwrap();
    assert!(pid > 0);
    // It listens, and answers a call.
    let line = format!("-sn uac 127.0.0.1:{port} -i 127.0.0.1 -m 1");
    assert_eq!(folder.ours("calling", &line).wait().code, 0);
}
