//! From a command line to sockets and calls.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use sip_msg::{ListenerId, Transport};
use sip_net::{Framing, ListenerConfig, NetConfig, WorkerSockets, bind};
use sip_scenario::{Calls, CompileOptions, InjectionFile, Order, Program, Role, Settings, Twin};
use sip_tls::{
    ClientTls, ClientTlsConfig, HandshakeConfig, HandshakePool, ServerTls, ServerTlsConfig,
    TlsVersion,
};

use crate::args::{Args, Mode, ScenarioSource};
use crate::error::{Refusal, exit};
use crate::twins::Plan;

/// The port of the other side where none is given; also the one that is tried first
/// here, and how many after it.
const FIRST_PORT: u16 = 5_060;
const PORTS_TRIED: u16 = 60;
/// Variables of all users together.
const USER_VARIABLES_MAX: usize = 10_000_000;
/// Files that stay open beside the calls' sockets.
const FILES_KEPT: u64 = 64;
/// How long a connection may be silent: longer than any test.
const IDLE_MS: u64 = 1_000_000_000;

/// The scenarios that are built in.
const UAC: &str = include_str!("../scenarios/uac.xml");
const UAS: &str = include_str!("../scenarios/uas.xml");

/// All that a run needs.
pub(crate) struct Setup {
    /// When the clock of the run begins.
    pub(crate) began: Instant,
    /// What time it is then.
    pub(crate) start_unix_us: u64,
    pub(crate) calls: Calls,
    pub(crate) sockets: WorkerSockets,
    pub(crate) net: NetConfig,
    pub(crate) locals: Vec<SocketAddr>,
    /// Where calls that begin here send to.
    pub(crate) send_to: Option<SocketAddr>,
    /// The other instances, if there are any.
    pub(crate) twins: Option<Plan>,
    pub(crate) tls_name: Option<Arc<str>>,
    /// What the scenario and its files hold without a meaning.
    pub(crate) warnings: Vec<String>,
}

/// The text of a built-in scenario.
pub(crate) fn built_in(name: &str) -> Result<&'static str, Refusal> {
    match name {
        "uac" => Ok(UAC),
        "uas" => Ok(UAS),
        "regexp" | "branchc" | "branchs" | "uac_pcap" | "ooc_default" | "ooc_dummy"
        | "3pcc-C-A" | "3pcc-C-B" | "3pcc-A" | "3pcc-B" => Err(Refusal::mistake(format!(
            "-sn {name} is not covered: uac and uas are; give another with -sf FILE"
        ))),
        _ => Err(Refusal::mistake(format!(
            "-sn {name}: there is no such scenario; uac and uas are built in"
        ))),
    }
}

/// Reads the files, finds the addresses and binds the sockets.
pub(crate) fn set_up(args: &Args) -> Result<Setup, Refusal> {
    let (files, program) = read(args)?;
    let warnings = warnings(&files, &program);
    tell(&warnings);
    let ip_of = |option, host: &Option<String>| {
        let host = host.as_deref();
        host.map(|host| resolve_own(option, host)).transpose()
    };
    let local_ip = ip_of("-i", &args.local_host)?;
    let media_ip = ip_of("-mi", &args.media_host)?;
    let (remote, tls_name) = match &args.remote {
        Some(text) => {
            let (host, addr) = resolve(text, local_ip)?;
            (Some(addr), Some(host))
        }
        None => (None, None),
    };
    check_ends(args, &program)?;
    let send_to = match &args.send_to {
        Some(text) => Some(resolve(text, local_ip)?.1),
        None => remote,
    };
    let own_ip = local_ip.unwrap_or_else(|| primary_ip(send_to));
    let ips = local_ips(args, &files, own_ip)?;
    let (sockets, locals) = open_sockets(args, &program, &ips)?;
    let net = net_config(args)?;
    let media_ip = media_ip.unwrap_or(own_ip);
    if args.echoes {
        crate::echo::start(media_ip, args.media_port).map_err(|error| Refusal {
            code: exit::BIND,
            what: format!("-rtp_echo on {media_ip}, port {}: {error}", args.media_port),
        })?;
    }
    let twins = Plan::make(&args.third_party, &program)?;
    // As SIPp: a half of a call that another instance is told of goes to the remote host, though
    // it begins with a message that comes.
    let tells = program.twin() == Some(Twin::Tells) && args.transport == Transport::Udp;
    let sends_there = args.send_to.is_some() || tells;
    // What files, names and other instances took is no time in which calls were due.
    let began = Instant::now();
    let start_unix_us = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0));
    let settings = Settings {
        remote,
        answers_to: send_to.filter(|_| program.role() == Role::Server && sends_there),
        locals: locals.clone(),
        own_addresses: args.mode == Mode::PerCall
            && args.transport != Transport::Udp
            && remote.is_some(),
        ip_field: match args.mode {
            Mode::PerAddress => Some(args.ip_field.unwrap_or(0)),
            _ => args.ip_field.filter(|_| locals.len() > 1),
        },
        media_ip,
        pid: std::process::id(),
        seed: getrandom::u64().unwrap_or(start_unix_us),
        epoch_unix_us: start_unix_us,
        ..settings_of(args)
    };
    Ok(Setup {
        began,
        start_unix_us,
        calls: Calls::new(program, settings, files, &args.set),
        sockets,
        net,
        locals,
        send_to,
        twins,
        tls_name: tls_name.map(|host| host.as_str().into()),
        warnings,
    })
}

/// What the scenario sends must have somewhere to go, by a way that is covered.
fn check_ends(args: &Args, program: &Program) -> Result<(), Refusal> {
    if program.sends_first() && args.remote.is_none() {
        return Err(Refusal::fatal(
            "the scenario begins with a message to send: give the remote host",
        ));
    }
    if args.send_to.is_some() && program.role() == Role::Server && args.transport != Transport::Udp
    {
        return Err(Refusal::mistake(
            "-rsa is not covered on the called side over TCP and TLS: what it sends goes back \
             on the connection of its call",
        ));
    }
    Ok(())
}

/// What the calls go by as far as the command line alone says it.
fn settings_of(args: &Args) -> Settings {
    Settings {
        service: args.service.clone().into_bytes(),
        remote_host: args.remote.as_deref().map_or_else(String::new, host_of),
        media_port: args.media_port,
        transport: args.transport,
        users: args.users,
        pause_ms: args.pause_ms,
        base_cseq: args.base_cseq,
        call_id: args.call_id.clone(),
        auth_user: args.auth_user.clone(),
        auth_password: args.auth_password.clone(),
        auth_uri: args.auth_uri.clone(),
        retransmits: args.retransmits,
        invite_retransmissions_max: args
            .invite_retransmissions_max
            .min(args.any_retransmissions_max),
        retransmissions_max: args.retransmissions_max.min(args.any_retransmissions_max),
        t2_ms: args.t2_ms,
        recv_timeout_ms: args.recv_timeout_ms,
        answers: args.answers,
        behaviors: args.behaviors,
        lost: args.lost,
        pauses_deaf: args.pauses_deaf,
        slashes_plain: args.slashes_plain,
        dead_call_ms: args.dead_call_ms,
        dynamic_id: args.dynamic_id,
        tells_rtts: args.traces.rtt,
        ..Settings::default()
    }
}

/// Reads the scenario and its files.
pub(crate) fn read(args: &Args) -> Result<(Vec<InjectionFile>, Program), Refusal> {
    let files = read_files(args)?;
    let program = compile(args, &files)?;
    check_twins(args, &program)?;
    check_variables(args, &program)?;
    Ok((files, program))
}

/// What the scenario and its files hold without a meaning.
pub(crate) fn warnings(files: &[InjectionFile], program: &Program) -> Vec<String> {
    let files = files.iter().flat_map(InjectionFile::warnings);
    let all = files.chain(program.warnings());
    all.map(ToString::to_string).collect()
}

/// Tells that on stderr.
pub(crate) fn tell(warnings: &[String]) {
    let mut err = io::stderr().lock();
    for warning in warnings {
        // Where nobody reads, there is nobody to tell.
        let _ = writeln!(err, "warning: {warning}");
    }
}

/// Each user has variables of its own, and all of them are there from the beginning.
fn check_variables(args: &Args, program: &Program) -> Result<(), Refusal> {
    let users = args.users.unwrap_or(0) as usize;
    let each = program.user_variable_count();
    if users.saturating_mul(each) > USER_VARIABLES_MAX {
        return Err(Refusal::mistake(format!(
            "-users {users}: with {each} variables each they have more than \
             {USER_VARIABLES_MAX}"
        )));
    }
    Ok(())
}

/// The other instances of the command line must be those of the scenario.
fn check_twins(args: &Args, program: &Program) -> Result<(), Refusal> {
    let wrong = |what: &str| Err(Refusal::mistake(what));
    let third_party = &args.third_party;
    let Some(twin) = program.twin() else {
        return if third_party.is_there() {
            wrong("-3pcc and -slave_cfg: the scenario has neither <sendCmd> nor <recvCmd>")
        } else {
            Ok(())
        };
    };
    if !third_party.is_there() {
        return wrong(
            "the scenario has <sendCmd> or <recvCmd>: name the other instance with \
             -3pcc HOST:PORT, or several with -slave_cfg FILE and -master or -slave NAME",
        );
    }
    match (&third_party.own, twin) {
        (Some((_, true)), Twin::IsTold) => {
            return wrong("-master: the scenario of a master begins with <sendCmd>");
        }
        (Some((_, false)), Twin::Tells) => {
            return wrong("-slave: the scenario of a slave begins with <recvCmd>");
        }
        _ => {}
    }
    let opens = args.mode == Mode::PerCall && args.transport != Transport::Udp;
    if program.role() == Role::Commanded && opens {
        return wrong(
            "a connection for each call (-t tn, ln) is not covered where calls begin with \
             <recvCmd>: use -t t1 or l1",
        );
    }
    Ok(())
}

fn read_files(args: &Args) -> Result<Vec<InjectionFile>, Refusal> {
    let mut files = Vec::new();
    for name in &args.files {
        let bytes = std::fs::read(name)
            .map_err(|error| Refusal::mistake(format!("-inf {name}: {error}")))?;
        let mut file = InjectionFile::parse(name, &bytes).map_err(Refusal::mistake)?;
        check_users(args, &file)?;
        for (indexed, column) in &args.indexes {
            if !file.is_named(indexed) {
                continue;
            }
            file.set_index(*column)
                .map_err(|what| Refusal::mistake(format!("-infindex {name} {column}: {what}")))?;
        }
        files.push(file);
    }
    Ok(files)
}

/// A file with a line for each user has one for each.
fn check_users(args: &Args, file: &InjectionFile) -> Result<(), Refusal> {
    if file.order() != Order::User {
        return Ok(());
    }
    let (name, lines) = (file.name(), file.line_count());
    match args.users {
        None => Err(Refusal::mistake(format!(
            "-inf {name}: USER is a line for each user: give their number with -users"
        ))),
        Some(users) if u64::from(users) > lines => Err(Refusal::mistake(format!(
            "-inf {name}: {lines} lines for the {users} users of -users"
        ))),
        Some(_) => Ok(()),
    }
}

fn compile(args: &Args, files: &[InjectionFile]) -> Result<Program, Refusal> {
    let (name, bytes) = match &args.scenario {
        ScenarioSource::BuiltIn(name) => {
            (format!("-sn {name}"), built_in(name)?.as_bytes().to_vec())
        }
        ScenarioSource::File(path) => {
            let bytes = std::fs::read(path)
                .map_err(|error| Refusal::mistake(format!("-sf {}: {error}", path.display())))?;
            (path.display().to_string(), bytes)
        }
    };
    let read_file = |name: &str| std::fs::read(Path::new(name));
    let options = CompileOptions {
        keys: &args.keys,
        files,
        set: &args.set,
        read_file: Some(&read_file),
        no_media: args.no_media,
        is_stream: args.transport != Transport::Udp,
        names_peers: args.third_party.peers_file.is_some(),
    };
    Program::compile(&name, &bytes, options).map_err(Refusal::mistake)
}

/// `host`, `host:port`, `[ip]` or `[ip]:port`: the name and the address. As SIPp, without
/// a port it is the same one over every transport.
fn resolve(text: &str, local: Option<IpAddr>) -> Result<(String, SocketAddr), Refusal> {
    let wrong = |why: String| Refusal::fatal(format!("the remote host {text}: {why}"));
    let (host, port) = split_port(text).map_err(|why| wrong(why.to_owned()))?;
    let port = port.unwrap_or(FIRST_PORT);
    let found: Vec<SocketAddr> = (host.as_str(), port)
        .to_socket_addrs()
        .map_err(|error| wrong(error.to_string()))?
        .collect();
    let fits = |addr: &&SocketAddr| local.is_none_or(|ip| ip.is_ipv4() == addr.is_ipv4());
    let addr = found
        .iter()
        .find(|addr| fits(addr) && addr.is_ipv4())
        .or_else(|| found.iter().find(fits))
        .or_else(|| found.first());
    match addr {
        Some(addr) => Ok((host, *addr)),
        None => Err(wrong("it has no address".to_owned())),
    }
}

/// The address of `-i` or `-mi`: one of this machine, in brackets or not, or its name.
fn resolve_own(option: &str, text: &str) -> Result<IpAddr, Refusal> {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let host = inner.unwrap_or(text);
    let wrong = |why: String| Refusal::fatal(format!("{option} {text}: {why}"));
    let found: Vec<SocketAddr> = (host, 0)
        .to_socket_addrs()
        .map_err(|error| wrong(error.to_string()))?
        .collect();
    let addr = found.iter().find(|addr| addr.is_ipv4()).or(found.first());
    let addr = addr.ok_or_else(|| wrong("it has no address".to_owned()))?;
    Ok(addr.ip())
}

fn split_port(text: &str) -> Result<(String, Option<u16>), &'static str> {
    let port = |text: &str| {
        text.parse::<u16>()
            .ok()
            .filter(|port| *port > 0)
            .ok_or("a port is a number from 1 to 65535")
    };
    if let Some(rest) = text.strip_prefix('[') {
        let (host, behind) = rest.split_once(']').ok_or("the bracket is not closed")?;
        return match behind.strip_prefix(':') {
            Some(digits) => Ok((host.to_owned(), Some(port(digits)?))),
            None if behind.is_empty() => Ok((host.to_owned(), None)),
            None => Err("write [ADDRESS]:PORT"),
        };
    }
    match text.split_once(':') {
        // More than one colon: an IPv6 address without brackets.
        Some((_, rest)) if rest.contains(':') => Ok((text.to_owned(), None)),
        Some((host, digits)) => Ok((host.to_owned(), Some(port(digits)?))),
        None => Ok((text.to_owned(), None)),
    }
}

fn host_of(text: &str) -> String {
    split_port(text).map_or_else(|_| text.to_owned(), |(host, _)| host)
}

/// The address from which the remote one would be reached. No packet is sent.
fn primary_ip(remote: Option<SocketAddr>) -> IpAddr {
    let remote = remote.unwrap_or(SocketAddr::from(([192, 0, 2, 1], 9)));
    let any = if remote.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    UdpSocket::bind(any)
        .and_then(|socket| {
            socket.connect(remote)?;
            socket.local_addr()
        })
        .map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |addr| addr.ip())
}

/// The addresses to bind: one, but with `-t ui` all in the injection file.
fn local_ips(args: &Args, files: &[InjectionFile], own: IpAddr) -> Result<Vec<IpAddr>, Refusal> {
    if args.mode != Mode::PerAddress {
        return Ok(vec![own]);
    }
    let column = args.ip_field.unwrap_or(0);
    let mut ips = Vec::new();
    let Some(file) = files.first() else {
        return Ok(vec![own]);
    };
    for line in 0..file.line_count() {
        let mut text = Vec::new();
        file.write_field(line, column, &mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let ip: IpAddr = text.trim().parse().map_err(|_| {
            Refusal::mistake(format!(
                "{}: field {column} of line {line} (counted from 0) is no IP address: {text:?}",
                file.name()
            ))
        })?;
        if !ips.contains(&ip) {
            ips.push(ip);
        }
        if ips.len() > args.sockets_max.min(usize::from(u16::MAX)) {
            return Err(Refusal::mistake(
                "more local addresses than -max_socket allows",
            ));
        }
    }
    Ok(ips)
}

fn open_sockets(
    args: &Args,
    program: &Program,
    ips: &[IpAddr],
) -> Result<(WorkerSockets, Vec<SocketAddr>), Refusal> {
    let role = program.role();
    let tls = match args.transport {
        Transport::Tls => server_tls(args, role)?,
        _ => None,
    };
    let first = args.local_port.unwrap_or(FIRST_PORT);
    let tried = if args.local_port.is_some() {
        0
    } else {
        PORTS_TRIED
    };
    let mut failure = None;
    let last = first.saturating_add(tried);
    for port in (first..=last).chain((tried > 0).then_some(0)) {
        let mut listeners: Vec<ListenerConfig> = ips
            .iter()
            .map(|ip| SocketAddr::new(bound_ip(args, *ip), port))
            .map(|addr| listener(args, addr, tls.clone()))
            .collect();
        if args.mode == Mode::PerCall && args.transport == Transport::Udp && role != Role::Server {
            let open = args.open_calls(program.pauses_ms(args.pause_ms), args.rate);
            listeners.extend(per_call(args, ips, open));
        }
        match bind(&listeners, 1) {
            Ok(mut all) if !all.is_empty() => {
                let sockets = all.remove(0);
                let locals = (0..listeners.len())
                    .filter_map(|n| sockets.local_addr(ListenerId(u16::try_from(n).ok()?)))
                    .map(|local| told(local, ips))
                    .collect();
                return Ok((sockets, locals));
            }
            Ok(_) => {}
            Err(error) => {
                let is_taken = error.error.kind() == io::ErrorKind::AddrInUse;
                failure = Some(error.to_string());
                if !is_taken {
                    break;
                }
            }
        }
    }
    Err(Refusal {
        code: exit::BIND,
        what: failure.unwrap_or_else(|| "no socket could be bound".to_owned()),
    })
}

/// The address to bind for one that messages name: as SIPp all that the host has, unless one
/// was asked for.
fn bound_ip(args: &Args, ip: IpAddr) -> IpAddr {
    let is_asked_for =
        args.local_host.is_some() || args.binds_local || args.mode == Mode::PerAddress;
    match ip {
        _ if is_asked_for => ip,
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The address that messages name: nobody can send to that of a socket which has all.
fn told(mut bound: SocketAddr, ips: &[IpAddr]) -> SocketAddr {
    if let Some(ip) = ips.first().filter(|_| bound.ip().is_unspecified()) {
        bound.set_ip(*ip);
    }
    bound
}

fn listener(args: &Args, addr: SocketAddr, tls: Option<Arc<ServerTls>>) -> ListenerConfig {
    let listener = match (args.transport, tls) {
        (Transport::Tls, Some(tls)) => ListenerConfig::tls(addr, tls),
        (Transport::Tls, None) => ListenerConfig::outbound(Transport::Tls, addr),
        (transport, _) => ListenerConfig::new(transport, addr),
    };
    // As SIPp: who leaves out Content-Length has no body.
    let framing = Framing::SipOrLengthless;
    ListenerConfig {
        framing,
        ..listener
    }
}

/// A socket for each call that may be open at a time (`-t un`), as far as
/// files may be open; past it calls share them.
fn per_call(args: &Args, ips: &[IpAddr], open: u64) -> Vec<ListenerConfig> {
    let files = file_limit().saturating_sub(FILES_KEPT);
    let count = open
        .min(files)
        .min(args.sockets_max as u64)
        .min(u64::from(u16::MAX) - 1);
    let ip = ips.first().copied();
    let ip = ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    (0..count)
        .map(|_| ListenerConfig::new(Transport::Udp, SocketAddr::new(ip, 0)))
        .collect()
}

/// Raises the limit of open files as far as it goes; gives what it is.
pub(crate) fn file_limit() -> u64 {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) if soft < hard => match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
            Ok(()) => hard,
            Err(_) => soft,
        },
        Ok((soft, _)) => soft,
        Err(_) => 1_024,
    }
}

fn net_config(args: &Args) -> Result<NetConfig, Refusal> {
    let mut config = NetConfig {
        connections_max: args.sockets_max,
        connections_per_source_max: args.sockets_max,
        opened_per_source_per_s: 0,
        idle_timeout_ms: IDLE_MS,
        ..NetConfig::default()
    };
    if let Some(bytes) = args.buffer_bytes {
        config.udp_receive_buffer_bytes = bytes;
    }
    if let Some(ms) = args.send_timeout_ms {
        config.connect_timeout_ms = ms;
    }
    if args.transport == Transport::Tls {
        config.client_tls = Some(Arc::new(client_tls(args)?));
        let handshakes = HandshakeConfig {
            handshakes_max: args.sockets_max,
            per_source_max: args.sockets_max,
            full_queue_max: args.sockets_max,
            ..HandshakeConfig::default()
        };
        let pool = HandshakePool::start(handshakes)
            .map_err(|error| Refusal::fatal(format!("no thread for TLS handshakes: {error}")))?;
        config.handshakes = Some(pool);
    }
    Ok(config)
}

fn versions(args: &Args) -> Result<Vec<TlsVersion>, Refusal> {
    match &args.tls_version {
        None => Ok(TlsVersion::ALL.to_vec()),
        Some(name) => match TlsVersion::by_name(name) {
            Ok(version) => Ok(vec![version]),
            Err(error) => Err(Refusal::mistake(format!("-tls_version {name}: {error}"))),
        },
    }
}

/// As SIPp: without `-tls_ca` any server is believed.
fn client_tls(args: &Args) -> Result<ClientTls, Refusal> {
    let build = || {
        let mut config = ClientTlsConfig::new();
        config = match &args.tls_ca {
            Some(roots) => config.roots_pem_files(&[roots])?,
            None => config.trust_anyone_insecurely(),
        };
        if let Some(crl) = &args.tls_crl {
            config = config.crl_pem_files(&[crl])?;
        }
        if let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) {
            config = config.identity_pem_files(cert, key)?;
        }
        Ok::<_, sip_tls::TlsError>(config)
    };
    build()
        .map(|config| config.versions(&versions(args).unwrap_or_default()))
        .and_then(ClientTlsConfig::build)
        .map_err(|error| Refusal::fatal(format!("TLS: {error}")))
}

/// The certificates of a listener. A client without certificates does not
/// listen; SIPp's server would look for the files below, too.
fn server_tls(args: &Args, role: Role) -> Result<Option<Arc<ServerTls>>, Refusal> {
    versions(args)?;
    if role != Role::Server && (args.tls_cert.is_none() || args.tls_key.is_none()) {
        return Ok(None);
    }
    let cert = args.tls_cert.as_deref().unwrap_or(Path::new("cacert.pem"));
    let key = args.tls_key.as_deref().unwrap_or(Path::new("cakey.pem"));
    let build = || {
        let mut config = ServerTlsConfig::new().pair_pem_files(cert, key)?;
        if let Some(roots) = &args.tls_ca {
            config = config
                .roots_pem_files(&[roots])?
                .client_auth(sip_tls::ClientAuth::Required);
        }
        config.versions(&versions(args).unwrap_or_default()).build()
    };
    build()
        .map(|tls| Some(Arc::new(tls)))
        .map_err(|error| Refusal::fatal(format!("TLS: {error}")))
}

impl Args {
    /// How many calls may be open at a rate. Where neither `-l` nor `-users` says so: as
    /// many as are begun in three times the pauses of a call, `-d` or a second,
    /// whichever is longest.
    pub(crate) fn open_calls(&self, pauses_ms: u64, rate: f64) -> u64 {
        match (self.open_calls_max, self.users) {
            (Some(0), _) => u64::MAX,
            (Some(max), _) => max,
            (None, Some(users)) => u64::from(users),
            (None, None) => {
                let length_ms = pauses_ms.max(self.pause_ms).max(1_000) as f64;
                (3.0 * rate * length_ms / self.rate_period_ms as f64).max(1.0) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_ports_or_not() {
        for (text, host, port) in [
            ("a.example", "a.example", None),
            ("127.0.0.1:5070", "127.0.0.1", Some(5_070)),
            ("[::1]:5070", "::1", Some(5_070)),
            ("[::1]", "::1", None),
            ("::1", "::1", None),
        ] {
            assert_eq!(split_port(text), Ok((host.to_owned(), port)), "{text}");
        }
        for text in ["a:0", "a:x", "a:70000", "[::1", "[::1]x"] {
            assert!(split_port(text).is_err(), "{text}");
        }
    }

    #[test]
    fn without_a_port_it_is_5060() {
        for (text, port) in [("127.0.0.1", 5_060), ("127.0.0.1:7", 7), ("[::1]", 5_060)] {
            assert_eq!(resolve(text, None).unwrap().1.port(), port, "{text}");
        }
    }

    #[test]
    fn what_is_ours_may_go_by_its_name() {
        for (text, ip) in [
            ("127.0.0.9", "127.0.0.9"),
            ("::1", "::1"),
            ("[::1]", "::1"),
            ("localhost", "127.0.0.1"),
        ] {
            assert_eq!(resolve_own("-i", text).unwrap().to_string(), ip, "{text}");
        }
        let refused = resolve_own("-mi", "nobody.invalid").unwrap_err();
        assert!(
            refused.what.starts_with("-mi nobody.invalid: "),
            "{}",
            refused.what
        );
    }

    #[test]
    fn all_addresses_are_bound_unless_one_is_asked_for() {
        let asked_for = Args {
            local_host: Some("127.0.0.3".to_owned()),
            ..Args::default()
        };
        let binds_local = Args {
            binds_local: true,
            ..Args::default()
        };
        let per_address = Args {
            mode: Mode::PerAddress,
            ..Args::default()
        };
        for own in ["127.0.0.3", "::1"] {
            let ip: IpAddr = own.parse().unwrap();
            let bound = bound_ip(&Args::default(), ip);
            assert!(
                bound.is_unspecified() && bound.is_ipv4() == ip.is_ipv4(),
                "{own}"
            );
            // Messages name one that can be sent to.
            assert_eq!(told((bound, 7).into(), &[ip]), (ip, 7).into(), "{own}");
            for args in [&asked_for, &binds_local, &per_address] {
                assert_eq!(bound_ip(args, ip), ip, "{own}");
            }
        }
    }

    #[test]
    fn variables_of_users_have_a_bound() {
        let text = b"<scenario name=\"s\"><recv request=\"A\"/>\
                     <User variables=\"a,b\"/><Reference variables=\"a,b\"/></scenario>";
        let program = Program::compile("s", text, CompileOptions::default()).unwrap();
        assert_eq!(program.user_variable_count(), 2);
        for (users, is_refused) in [(1_000_000, false), (5_000_000, false), (5_000_001, true)] {
            let args = Args {
                users: Some(users),
                ..Args::default()
            };
            assert_eq!(
                check_variables(&args, &program).is_err(),
                is_refused,
                "{users}"
            );
        }
    }

    #[test]
    fn both_built_in_scenarios_compile() {
        for (name, role) in [("uac", Role::Client), ("uas", Role::Server)] {
            let args = Args {
                scenario: ScenarioSource::BuiltIn(name.to_owned()),
                ..Args::default()
            };
            assert_eq!(compile(&args, &[]).unwrap().role(), role);
        }
        assert!(built_in("regexp").is_err());
    }
}
