//! The files of a run have SIPp's form.

#![allow(clippy::unwrap_used)]

mod support;

use support::{Folder, await_port, await_that, free_port};

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
            .contains(";200,200,\n")
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
        assert_eq!(ended.code, 99);
        folder.write(&format!("{name}.xml"), &ended.stdout);
    }
    let port = free_port();
    let line = format!("-sf uas.xml -i 127.0.0.1 -p {port} -m 2");
    let mut called = folder.sipp("called", &line);
    await_port(port, &mut called);
    let line = format!("-sf uac.xml 127.0.0.1:{port} -i 127.0.0.1 -m 2");
    assert_eq!(folder.sipp("calling", &line).wait().code, 0);
    assert_eq!(called.wait().code, 0);
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
    // Nothing went wrong: nobody misses the file.
    let line = format!(
        "-sn uac 127.0.0.1:{port} -i 127.0.0.1 -m 2 -trace_err -error_file none/errors.log"
    );
    let ended = folder.ours("clean", &line).wait();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
    // The file begins with the first warning; a run that cannot begin it ends.
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

#[test]
fn an_error_file_begins_with_the_first_error() {
    let folder = Folder::new();
    let port = free_port();
    let mut called = folder.ours("called", &format!("-sn uas -i 127.0.0.1 -p {port}"));
    await_port(port, &mut called);
    folder.write("kept.log", "of an earlier run");
    let line =
        format!("-sn uac 127.0.0.1:{port} -i 127.0.0.1 -m 2 -trace_err -error_file kept.log");
    assert_eq!(folder.ours("clean", &line).wait().code, 0);
    assert_eq!(folder.read("kept.log"), "of an earlier run");
}

#[test]
fn the_screens_of_a_run_begin_their_file_anew() {
    let folder = Folder::new();
    let port = free_port();
    let mut called = folder.ours("called", &format!("-sn uas -i 127.0.0.1 -p {port}"));
    await_port(port, &mut called);
    folder.write("screens.log", "of an earlier run");
    let line = format!(
        "-sn uac 127.0.0.1:{port} -i 127.0.0.1 -m 2 -trace_screen -screen_file screens.log"
    );
    assert_eq!(folder.ours("calling", &line).wait().code, 0);
    let screens = folder.read("screens.log");
    assert!(
        !screens.contains("earlier") && screens.contains("Statistics"),
        "{screens}"
    );
}

/// Sends a message and stands at a pause.
const PAUSES: &str = "<?xml version=\"1.0\"?><scenario name=\"x\"><send><![CDATA[
  OPTIONS sip:a@[remote_ip] SIP/2.0
  Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
  From: <sip:a@b>;tag=1
  To: <sip:c@d>
  Call-ID: [call_id]
  CSeq: [cseq] OPTIONS
  Content-Length: 0
]]></send><nop><action><log message=\"a line\"/><warning message=\"a warning\"/></action></nop>
<pause milliseconds=\"600000\"/></scenario>";

#[test]
fn what_a_run_traces_can_be_read_while_it_runs() {
    let folder = Folder::new();
    folder.write("pauses.xml", PAUSES);
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = silent.local_addr().unwrap();
    let line = format!(
        "-sf pauses.xml {remote} -i 127.0.0.1 -m 1 -trace_logs -log_file logs -trace_msg \
         -message_file messages -trace_shortmsg -shortmessage_file short -trace_err -error_file errors"
    );
    let mut calling = folder.ours("calling", &line);
    for (file, text) in [
        ("logs", "a line\n"),
        ("messages", "OPTIONS sip:a@"),
        ("short", "OPTIONS sip:a@"),
        ("errors", "a warning\n"),
    ] {
        await_that("the line is in its file", || {
            assert!(!calling.has_ended());
            let bytes = std::fs::read(folder.0.join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(text)
        });
    }
}

/// The lines of the only file that ends so, as SIPp and as we write it.
fn beside(scenario: &str, options: &str, file: &str) -> [Vec<String>; 2] {
    let port = free_port();
    let folders = [Folder::new(), Folder::new()];
    let mut called = folders[0].ours("called", &format!("-sn uas -i 127.0.0.1 -p {port}"));
    await_port(port, &mut called);
    for (index, folder) in folders.iter().enumerate() {
        folder.write("own.xml", scenario);
        let line = format!("-sf own.xml 127.0.0.1:{port} -i 127.0.0.1 {options}");
        let calling = match index {
            0 => folder.sipp("calling", &line),
            _ => folder.ours("calling", &line),
        };
        calling.wait();
    }
    let lines = |folder: &Folder| {
        let text = folder.read(&folder.find(file));
        text.lines().map(str::to_owned).collect()
    };
    [lines(&folders[0]), lines(&folders[1])]
}

#[test]
fn counts_and_error_codes_have_sipps_form() {
    let uac = include_str!("../scenarios/uac.xml");
    let shown = "<nop hide=\"false\"><action><log message=\"a\"/></action></nop>";
    let hidden = "<nop hide=\"true\"><action><log message=\"b\"/></action></nop>";
    let plain = uac.replace("<pause", &format!("{shown}{hidden}<pause"));
    for (scenario, options) in [
        (plain.clone(), ""),
        (plain.clone(), "-lost 0.0001"),
        (
            plain.replace(
                "<recv response=\"180\"",
                "<recv lost=\"0\" response=\"180\"",
            ),
            "",
        ),
        (
            plain.replace("<pause", "<nop hiderest=\"true\"/><pause"),
            "",
        ),
    ] {
        let options = format!("-m 2 -trace_counts {options}");
        let [theirs, ours] = beside(&scenario, &options, "_counts.csv");
        assert_eq!(ours[0], theirs[0], "{options}");
        // Without the times.
        let figures = |lines: &[String]| -> Vec<String> {
            let last = lines.last().unwrap();
            last.split(';').skip(2).map(str::to_owned).collect()
        };
        assert_eq!(figures(&ours), figures(&theirs), "{options}: {}", ours[0]);
        assert_eq!(figures(&ours).len() + 2, ours[0].split(';').count());
    }
    let refused = uac.replace("response=\"200\" rtd", "response=\"202\" rtd");
    assert_ne!(refused, uac);
    let [theirs, ours] = beside(&refused, "-m 3 -trace_error_codes", "_error_codes.csv");
    let codes = |lines: &[String]| -> String {
        let last = lines.iter().map(|line| line.rsplit(';').next().unwrap());
        last.collect()
    };
    assert_eq!(
        (codes(&ours).as_str(), codes(&theirs).as_str()),
        ("200,200,200,", "200,200,200,")
    );
}

#[test]
fn with_users_their_number_is_the_rate_that_is_aimed_at() {
    let uac = include_str!("../scenarios/uac.xml");
    let files = beside(
        uac,
        "-users 3 -m 6 -d 10 -trace_stat -stf own.csv",
        "own.csv",
    );
    for lines in files {
        let place = lines[0]
            .split(';')
            .position(|name| name == "TargetRate")
            .unwrap();
        let rate = lines.last().unwrap().split(';').nth(place);
        assert_eq!(rate, Some("3"), "{lines:?}");
    }
}
