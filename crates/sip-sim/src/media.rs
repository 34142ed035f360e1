//! Media engines as they are at the other end of a network: they answer, late, twice or never,
//! refuse at times, die and return without their calls. What they are asked is held to the
//! protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use sip_media::bencode::{Dictionary, Value, Writer, read};

use crate::Dice;
use crate::plan::Media;

/// Where the first engine is; the others follow.
const ENGINES: [u8; 4] = [10, 0, 6, 1];
const PORT: u16 = 2_223;
/// How long an engine is away.
const AWAY_MS: (u64, u64) = (2_000, 20_000);

/// The engines' addresses.
pub(crate) fn engines(plan: &Media) -> Vec<SocketAddr> {
    let [a, b, c, d] = ENGINES;
    let at = |nth: u8| SocketAddr::from(([a, b, c, d + nth], PORT));
    (0..plan.engines).map(at).collect()
}

/// Whether a session description has been through an engine.
pub(crate) fn is_led(sdp: &[u8]) -> bool {
    let [a, b, c, _] = ENGINES;
    let mark = format!("c=IN IP4 {a}.{b}.{c}.");
    sdp.windows(mark.len()).any(|part| part == mark.as_bytes())
}

/// What an engine says: when, and to which worker.
pub(crate) struct Said {
    pub(crate) at_ms: u64,
    pub(crate) worker: usize,
    pub(crate) from: SocketAddr,
    /// None where nobody listens there.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// A call at an engine.
#[derive(Default)]
struct Call {
    /// The tags, and the names of branches that nobody has answered yet.
    parties: BTreeSet<Vec<u8>>,
    /// The branch that an answering tag belongs to.
    branches: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// An engine.
struct Engine {
    at: SocketAddr,
    calls: BTreeMap<Vec<u8>, Call>,
    /// What it has answered, by cookie: the same again.
    answered: BTreeMap<Vec<u8>, Vec<u8>>,
    away: Vec<(u64, u64)>,
    /// Whether its calls were forgotten since it was away last.
    is_fresh: bool,
    ports: u64,
}

/// All engines.
pub(crate) struct Engines {
    plan: Media,
    dice: Dice,
    engines: Vec<Engine>,
    pub(crate) faults: Vec<String>,
    /// Offers and answers that were given.
    pub(crate) given: u64,
}

impl Engines {
    pub(crate) fn new(plan: Media, mut dice: Dice, span_ms: u64) -> Self {
        let engines = engines(&plan).into_iter().map(|at| {
            let away = (0..plan.deaths).map(|_| {
                let from_ms = dice.below(span_ms.max(1));
                (from_ms, from_ms + dice.between(AWAY_MS.0, AWAY_MS.1))
            });
            Engine {
                at,
                calls: BTreeMap::new(),
                answered: BTreeMap::new(),
                away: away.collect(),
                is_fresh: true,
                ports: 30_000,
            }
        });
        let engines = engines.collect();
        Self {
            plan,
            dice,
            engines,
            faults: Vec::new(),
            given: 0,
        }
    }

    /// Calls that engines still have.
    pub(crate) fn left(&self) -> usize {
        self.engines.iter().map(|engine| engine.calls.len()).sum()
    }

    /// A worker sends a datagram to an engine.
    pub(crate) fn receive(
        &mut self,
        now_ms: u64,
        worker: usize,
        to: SocketAddr,
        datagram: &[u8],
    ) -> Vec<Said> {
        let Some(engine) = self.engines.iter_mut().find(|engine| engine.at == to) else {
            self.faults
                .push(format!("{to} is no engine, and is asked something"));
            return Vec::new();
        };
        let is_away = |&(from_ms, to_ms): &(u64, u64)| (from_ms..to_ms).contains(&now_ms);
        if engine.away.iter().any(is_away) {
            engine.calls.clear();
            engine.answered.clear();
            engine.is_fresh = false;
            // Its host answers for it, or nobody does.
            let is_told = self.dice.below(2) == 0;
            let refused = Said {
                at_ms: now_ms + 1,
                worker,
                from: to,
                bytes: None,
            };
            return is_told.then_some(refused).into_iter().collect();
        }
        if self.dice.thousandths(self.plan.loss) {
            return Vec::new();
        }
        let reply = match answer(engine, datagram, &mut self.dice, &self.plan) {
            Ok(reply) => reply,
            Err(fault) => {
                self.faults.push(fault);
                return Vec::new();
            }
        };
        self.given += u64::from(reply.is_given);
        let mut times = 1 + u64::from(self.dice.thousandths(self.plan.twice));
        if self.dice.thousandths(self.plan.loss) {
            times -= 1;
        }
        let said = (0..times).map(|_| {
            let late = self.dice.thousandths(self.plan.late);
            let wait_ms = match late {
                true => self.dice.between(500, 4_000),
                false => self.dice.between(0, self.plan.delay_max_ms),
            };
            Said {
                at_ms: now_ms + wait_ms,
                worker,
                from: to,
                bytes: Some(reply.bytes.clone()),
            }
        });
        said.collect()
    }
}

struct Reply {
    bytes: Vec<u8>,
    is_given: bool,
}

/// What an engine answers; what is wrong with the question.
fn answer(
    engine: &mut Engine,
    datagram: &[u8],
    dice: &mut Dice,
    plan: &Media,
) -> Result<Reply, String> {
    let shown = || String::from_utf8_lossy(datagram).into_owned();
    let mut halves = datagram.splitn(2, |byte| *byte == b' ');
    let (Some(cookie), Some(text)) = (halves.next(), halves.next()) else {
        return Err(format!("an engine was sent no command: {}", shown()));
    };
    if let Some(before) = engine.answered.get(cookie) {
        return Ok(Reply {
            bytes: before.clone(),
            is_given: false,
        });
    }
    let value = read(text).map_err(|fault| format!("{fault:?} in {}", shown()))?;
    let Some(asked) = value.dictionary() else {
        return Err(format!("an engine was sent no dictionary: {}", shown()));
    };
    let mut bytes = [cookie, b" "].concat();
    let mut is_given = false;
    match asked.bytes("command") {
        Some(b"ping") => say(&mut bytes, "pong", None),
        Some(b"delete") => {
            delete(engine, asked)?;
            say(&mut bytes, "ok", None);
        }
        Some(b"offer") if dice.thousandths(plan.full) => say(&mut bytes, "load limit", None),
        Some(command @ (b"offer" | b"answer")) => {
            match lead(engine, asked, command == b"answer")? {
                Some(sdp) => {
                    is_given = true;
                    say(&mut bytes, "ok", Some(&sdp));
                }
                None => say(&mut bytes, "error", None),
            }
        }
        _ => return Err(format!("an engine has no such command: {}", shown())),
    }
    engine.answered.insert(cookie.to_vec(), bytes.clone());
    Ok(Reply { bytes, is_given })
}

fn say(out: &mut Vec<u8>, result: &str, sdp: Option<&[u8]>) {
    Writer::new(out).dictionary(|of| {
        if let Some(sdp) = sdp {
            of.entry("sdp", sdp);
        }
        of.entry("result", result.as_bytes());
    });
}

/// What each command must have.
fn named<'t>(asked: &Dictionary<'t>, key: &str) -> Result<&'t [u8], String> {
    let value = asked.bytes(key).filter(|value| !value.is_empty());
    value.ok_or_else(|| format!("a command has no {key}"))
}

/// The session description as the engine has it: its own address and another port; none where
/// it does not know the call.
fn lead(
    engine: &mut Engine,
    asked: &Dictionary<'_>,
    is_answer: bool,
) -> Result<Option<Vec<u8>>, String> {
    let (call, from) = (named(asked, "call-id")?, named(asked, "from-tag")?);
    let sdp = named(asked, "sdp")?;
    if is_led(sdp) {
        return Err("an engine is given what it has made".to_owned());
    }
    let branch = asked.bytes("via-branch");
    let to = asked.bytes("to-tag");
    if is_answer && to.is_none() {
        return Err("an answer has no to-tag".to_owned());
    }
    match asked.get("flags") {
        Some(Value::List(flags)) if flags.contains(&Value::Bytes(b"loop-protect")) => {}
        _ => return Err("an engine is not told to look for loops".to_owned()),
    }
    let known = engine.calls.get(call);
    let knows_party = known.is_some_and(|of| of.parties.contains(from));
    if is_answer && !knows_party {
        // It was away, and knows nothing of what was before.
        return match engine.is_fresh {
            true => Err("an answer to what was never offered".to_owned()),
            false => Ok(None),
        };
    }
    let known = engine.calls.entry(call.to_vec()).or_default();
    known.parties.insert(from.to_vec());
    match (to, branch) {
        (Some(to), Some(branch)) => {
            known.parties.remove(branch);
            known.parties.insert(to.to_vec());
            known.branches.insert(branch.to_vec(), to.to_vec());
        }
        (Some(to), None) => _ = known.parties.insert(to.to_vec()),
        (None, Some(branch)) => _ = known.parties.insert(branch.to_vec()),
        (None, None) => return Err("a call that begins has no branch".to_owned()),
    }
    engine.ports += 2;
    let (ip, port) = (engine.at.ip(), engine.ports % 60_000);
    let led = format!(
        "v=0\r\no=- 1 1 IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\nm=audio {port} RTP/AVP 0\r\n"
    );
    Ok(Some(led.into_bytes()))
}

/// A dialog is over, or a branch is: with the last of them the call is.
fn delete(engine: &mut Engine, asked: &Dictionary<'_>) -> Result<(), String> {
    let (call, from) = (named(asked, "call-id")?, named(asked, "from-tag")?);
    let Some(known) = engine.calls.get_mut(call) else {
        return Ok(());
    };
    match (asked.bytes("to-tag"), asked.bytes("via-branch")) {
        (Some(to), _) => {
            // Either may be the one whom others still have: the caller, whose INVITE came once
            // more and was forked, while whoever answered the first hangs up.
            let gone = match known.branches.values().any(|tag| tag == from) {
                true => from,
                false => to,
            };
            known.parties.remove(gone);
            known.branches.retain(|_, tag| tag != gone);
        }
        (None, Some(branch)) => {
            known.parties.remove(branch);
            if let Some(tag) = known.branches.remove(branch) {
                known.parties.remove(&tag);
            }
        }
        (None, None) => return Err("a delete names neither a dialog nor a branch".to_owned()),
    }
    if known.parties.iter().all(|party| party == from) || known.parties.len() <= 1 {
        engine.calls.remove(call);
    }
    Ok(())
}
