//! The files of a run have SIPp's form.

#![allow(clippy::unwrap_used)]

mod support;

use support::{Folder, await_port, free_port};

#[test]
fn the_statistics_have_sipps_columns_and_figures_that_add_up() {
    let folder = Folder::new();
    let port = free_port();
    let scenario = folder.write(
        "calls.xml",
        include_str!("../scenarios/uac.xml")
            .replace(
                "<recv response=\"100\"",
                "<recv response=\"100\" counter=\"trying\"",
            )
            .as_str(),
    );
    let line = |stat: &str| {
        format!(
            "-sf {} 127.0.0.1:{port} -i 127.0.0.1 -m 20 -r 100 -d 10 -trace_stat -fd 1 -stf {stat}",
            scenario.display()
        )
    };
    let mut called = folder.ours("called", &format!("-sn uas -i 127.0.0.1 -p {port} -m 40"));
    await_port(port, &mut called);
    assert_eq!(folder.sipp("theirs", &line("theirs.csv")).wait().code, 0);
    assert_eq!(folder.ours("ours", &line("ours.csv")).wait().code, 0);
    let (theirs, ours) = (folder.read("theirs.csv"), folder.read("ours.csv"));
    let header = |text: &str| text.lines().next().unwrap().to_owned();
    assert_eq!(header(&ours), header(&theirs));
    let columns: Vec<String> = header(&ours).split(';').map(str::to_owned).collect();
    assert!(columns.len() > 90, "{} columns", columns.len());
    let last = |text: &str| -> Vec<String> {
        let line = text.lines().last().unwrap();
        line.split(';').map(str::to_owned).collect()
    };
    let (theirs, ours) = (last(&theirs), last(&ours));
    assert_eq!(ours.len(), theirs.len());
    for (name, (ours, theirs)) in columns.iter().zip(ours.iter().zip(&theirs)) {
        let is_cumulative = name.ends_with("(C)") || name == "TotalCallCreated";
        let depends_on_time = [
            "Elapsed", "CallRate", "Time1", "Length", "Watchdog", "Retrans",
        ]
        .iter()
        .any(|part| name.contains(part));
        if is_cumulative && !depends_on_time {
            assert_eq!(ours, theirs, "{name}");
        }
    }
    // Every call is in one class of its length.
    let sum: u64 = columns
        .iter()
        .zip(&ours)
        .filter(|(name, _)| name.starts_with("CallLengthRepartition_"))
        .map(|(_, value)| value.parse::<u64>().unwrap())
        .sum();
    assert_eq!(sum, 20);
    drop(called);
}

#[test]
fn every_trace_is_written() {
    let folder = Folder::new();
    let port = free_port();
    let mut called = folder.ours("called", &format!("-sn uas -i 127.0.0.1 -p {port}"));
    await_port(port, &mut called);
    let scenario = "<?xml version=\"1.0\"?><scenario name=\"x\"><send retrans=\"500\"><![CDATA[
  BYE sip:a@[remote_ip] SIP/2.0
  Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
  From: <sip:a@b>;tag=1
  To: <sip:c@d>
  Call-ID: [call_id]
  CSeq: [cseq] BYE
  Content-Length: 0
]]><action><log message=\"call [call_number]\"/></action></send>
<recv response=\"202\" rtd=\"true\"/></scenario>";
    folder.write("wrong.xml", scenario);
    folder.write("right.xml", &scenario.replace("202", "200"));
    let traces = "-trace_msg -trace_shortmsg -trace_err -trace_logs -trace_error_codes \
                  -trace_counts -trace_screen -trace_rtt -rtt_freq 1 -fd 1";
    let line = format!("-sf wrong.xml 127.0.0.1:{port} -i 127.0.0.1 -m 2 -r 50 {traces}");
    assert_eq!(folder.ours("wrong", &line).wait().code, 1);
    let messages = folder.read(&folder.find("_messages.log"));
    assert!(messages.contains("UDP message sent ("), "{messages}");
    assert!(messages.contains("UDP message received ["), "{messages}");
    let short = folder.read(&folder.find("_shortmessages.log"));
    let sent = short.lines().find(|line| line.contains("\tS\t")).unwrap();
    assert!(
        sent.ends_with("\tCSeq:1 BYE\tBYE sip:a@127.0.0.1 SIP/2.0"),
        "{sent}"
    );
    let errors = folder.read(&folder.find("_errors.log"));
    assert!(errors.contains("while expecting '202' (index 1), received 'SIP/2.0 200 OK"));
    assert!(
        folder
            .read(&folder.find("_logs.log"))
            .contains("call 1\ncall 2\n")
    );
    assert!(
        folder
            .read(&folder.find("_error_codes.csv"))
            .contains(";200;2;")
    );
    let counts = folder.read(&folder.find("_counts.csv"));
    assert!(counts.starts_with(
        "CurrentTime;ElapsedTime;0_BYE_Sent;0_BYE_Retrans;0_BYE_Timeout;1_202_Recv;\
         1_202_Retrans;1_202_Timeout;1_202_Unexp;\n"
    ));
    assert!(
        counts.lines().last().unwrap().ends_with(";0;0;0;0;2;"),
        "{counts}"
    );
    assert!(
        folder
            .read(&folder.find("_screen.log"))
            .contains("unexpected message")
    );
    let folder = Folder::new();
    folder.write("right.xml", &scenario.replace("202", "200"));
    let line = format!("-sf right.xml 127.0.0.1:{port} -i 127.0.0.1 -m 2 -r 50 {traces}");
    assert_eq!(folder.ours("right", &line).wait().code, 0);
    let rtt = folder.read(&folder.find("_rtt.csv"));
    assert!(
        rtt.starts_with("Date_ms;response_time_ms;rtd_no\n"),
        "{rtt}"
    );
    assert_eq!(rtt.lines().count(), 3, "{rtt}");
}

#[test]
fn built_in_scenarios_can_be_printed_and_played_by_sipp() {
    let folder = Folder::new();
    for name in ["uac", "uas"] {
        let ended = folder.ours("dump", &format!("-sd {name}")).wait();
        assert_eq!(ended.code, 0);
        folder.write(&format!("{name}.xml"), &ended.stdout);
    }
    let port = free_port();
    let line = format!("-sf uas.xml -i 127.0.0.1 -p {port} -m 2");
    let mut called = folder.sipp("called", &line);
    await_port(port, &mut called);
    let line = format!("-sf uac.xml 127.0.0.1:{port} -i 127.0.0.1 -m 2");
    assert_eq!(folder.sipp("calling", &line).wait().code, 0);
    assert_eq!(called.wait().code, 0);
    let help = folder.ours("help", "-h").wait();
    assert!(help.code == 0 && help.stdout.contains("-trace_stat"));
}

#[test]
fn what_cannot_be_written_is_told_and_is_no_success() {
    let folder = Folder::new();
    let port = free_port();
    let mut called = folder.ours("called", &format!("-sn uas -i 127.0.0.1 -p {port}"));
    await_port(port, &mut called);
    for trace in [
        "-trace_stat -stf /dev/full",
        "-trace_msg -message_file /dev/full",
        "-trace_shortmsg -shortmessage_file /dev/full",
        "-trace_screen -screen_file /dev/full",
    ] {
        let line = format!("-sn uac 127.0.0.1:{port} -i 127.0.0.1 -m 2 {trace}");
        let ended = folder.ours("full", &line).wait();
        assert_eq!(ended.code, 255, "{trace}: {ended:?}");
        assert!(
            ended.stderr.starts_with("cannot write /dev/full: "),
            "{trace}: {}",
            ended.stderr
        );
        assert_eq!(ended.stderr.lines().count(), 1, "{trace}: {}", ended.stderr);
        assert!(ended.stdout.contains("Successful call"), "{trace}");
    }
    // The first warning, and not the file, is what comes later.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = silent.local_addr().unwrap();
    for (file, code, what) in [
        ("none/errors.log", 255, "cannot write none/errors.log: "),
        // A call that failed is the worse news.
        ("/dev/full", 1, "cannot write /dev/full: "),
    ] {
        let line = format!(
            "-sn uac {remote} -i 127.0.0.1 -m 1 -max_retrans 0 -trace_err -error_file {file}"
        );
        let ended = folder.ours("errors", &line).wait();
        assert_eq!(ended.code, code, "{file}: {ended:?}");
        assert!(ended.stderr.starts_with(what), "{file}: {}", ended.stderr);
    }
}
