//! WireGuard: of the kernel where it has it, else boringtun's, in user space.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use signet_bed::process::is_there;

use super::driver::{AtHand, Counted, End, Member, Up, words};
use super::link::{FAR, FAR_WITHIN, NEAR, NEAR_WITHIN};

const PORT: u16 = 51_820;
const BORINGTUN: &str = "boringtun-cli";
/// How long boringtun may take to make its device.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn make(at_hand: &AtHand<'_>) -> Result<Up, String> {
    let is_of_kernel = at_hand
        .link
        .near
        .ip("link add wg-probe type wireguard")
        .is_ok();
    if is_of_kernel {
        at_hand.link.near.ip("link del wg-probe")?;
    } else if !is_there(BORINGTUN) {
        return Err(format!(
            "the kernel has no WireGuard and there is no {BORINGTUN}: modprobe wireguard, or cargo install {BORINGTUN}"
        ));
    }
    let mut members = Vec::new();
    for end in End::BOTH {
        members.extend(device(at_hand, end, is_of_kernel)?);
    }
    let keys = End::BOTH.map(|end| keys(at_hand, end));
    let [far, near] = keys;
    let (far, near) = (far?, near?);
    for (end, own, peer) in [(End::Far, &far, &near), (End::Near, &near, &far)] {
        configure(at_hand, end, own, peer)?;
    }
    Ok(Up {
        by: Some(
            if is_of_kernel {
                "the kernel"
            } else {
                BORINGTUN
            }
            .to_owned(),
        ),
        ..Up::within(members, Counted::Device(name(End::Near)))
    })
}

/// The device of an end. Sockets are named after devices, so each end has another.
fn name(end: End) -> String {
    format!("wg-{}", end.name())
}

/// Makes a device; of boringtun, its process.
fn device(at_hand: &AtHand<'_>, end: End, is_of_kernel: bool) -> Result<Option<Member>, String> {
    let device = name(end);
    let namespace = at_hand.namespace(end);
    if is_of_kernel {
        namespace.ip(&format!("link add {device} type wireguard"))?;
        return Ok(None);
    }
    // Else it gives up root's rights, which the device takes.
    let options = ["WG_SUDO=1", BORINGTUN, "--foreground", &device];
    let mut member = at_hand.start(end, "env", &words(&options))?;
    let until = Instant::now() + PATIENCE;
    let socket = format!("/var/run/wireguard/{device}.sock");
    let is_there = || {
        let shown = namespace.ip(&format!("link show dev {device}"));
        shown.is_ok() && Path::new(&socket).exists()
    };
    while !is_there() {
        member.must_run()?;
        if Instant::now() > until {
            return Err(format!("{BORINGTUN} makes no device: {}", member.said()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(Some(member))
}

/// The keys of an end.
struct Keys {
    /// The file of the private one.
    file: String,
    public: String,
}

fn keys(at_hand: &AtHand<'_>, end: End) -> Result<Keys, String> {
    let private = wg(&["genkey"], "")?;
    let public = wg(&["pubkey"], &private)?;
    let file = at_hand
        .folder
        .put(&format!("wireguard-{}.key", end.name()), &private)?;
    Ok(Keys {
        file,
        public: public.trim().to_owned(),
    })
}

fn configure(at_hand: &AtHand<'_>, end: End, own: &Keys, peer: &Keys) -> Result<(), String> {
    let device = name(end);
    let namespace = at_hand.namespace(end);
    let (within, peers_within, peers) = match end {
        End::Near => (NEAR_WITHIN, FAR_WITHIN, FAR),
        End::Far => (FAR_WITHIN, NEAR_WITHIN, NEAR),
    };
    let line = format!(
        "netns exec {} wg set {device} listen-port {PORT} private-key {} peer {} endpoint {peers}:{PORT} allowed-ips {peers_within}/32",
        namespace.name(),
        own.file,
        peer.public
    );
    let output = Command::new("ip")
        .args(line.split(' '))
        .output()
        .map_err(|error| format!("wg: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("wg set {device}: {}", why.trim()));
    }
    for line in [
        format!("addr add {within}/32 dev {device}"),
        format!("link set {device} up"),
        format!("route add {peers_within}/32 dev {device} src {within}"),
    ] {
        namespace.ip(&line)?;
    }
    Ok(())
}

/// Runs `wg` with an input; gives what it printed.
fn wg(arguments: &[&str], input: &str) -> Result<String, String> {
    let failed = |why: String| format!("wg {}: {why}", arguments.join(" "));
    let mut child = Command::new("wg")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // It says itself what it misses.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let why = String::from_utf8_lossy(&output.stderr);
        Err(failed(why.trim().to_owned()))
    }
}
