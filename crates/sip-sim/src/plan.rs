//! What a run is made of.

use sip_engine::settings::KeepAlive;

/// The weather of a network. Chances are in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Datagrams that are lost.
    pub loss: u64,
    /// Datagrams that come twice.
    pub repeat: u64,
    /// The shortest way, in milliseconds.
    pub delay_min_ms: u64,
    /// The longest way: datagrams overtake each other within the difference.
    pub delay_max_ms: u64,
    /// Messages on a stream after which it breaks.
    pub breakage: u64,
    /// Datagrams that the server's kernel does not take.
    pub refusal: u64,
}

/// An address translation before each computer whose phones use datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Translation {
    /// For how long it remembers a way on which nothing goes.
    pub memory_ms: u64,
    /// Whether what comes from outside keeps a way open.
    pub counts_inward: bool,
    /// Whether it says (ICMP) that it does not know a way.
    pub speaks: bool,
    /// What the server sends so that it does not forget.
    pub keepalive: KeepAlive,
    /// Seconds that the server grants phones behind it at most.
    pub expires_max_s: Option<u32>,
}

impl Translation {
    fn of_seed(seed: u64) -> Option<Self> {
        let mut dice = crate::Dice::new(seed, 11);
        (dice.below(3) == 0).then(|| Self {
            memory_ms: dice.between(5_000, 60_000),
            counts_inward: dice.below(2) == 0,
            speaks: dice.below(2) == 0,
            keepalive: [KeepAlive::Off, KeepAlive::Crlf, KeepAlive::Options]
                [dice.below(3) as usize],
            expires_max_s: [None, Some(60), Some(20)][dice.below(3) as usize],
        })
    }

    /// Whether it forgets no phone that registers.
    pub(crate) fn is_kept_open(&self) -> bool {
        match self.keepalive {
            KeepAlive::Off => false,
            KeepAlive::Crlf => self.counts_inward,
            KeepAlive::Options => true,
        }
    }
}

/// How the store behaves. Chances are in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// The longest that an answer usually takes.
    pub delay_max_ms: u64,
    /// Answers that say that the store could not say.
    pub failure: u64,
    /// Answers that come after the asker's patience ended.
    pub stall: u64,
    /// Questions to it, and to the resolver, that find no room.
    pub full: u64,
}

/// A database of users on another machine, reached by a pipeline of look-ups.
#[derive(Clone, Copy, Debug)]
pub struct Distance {
    /// The round trip; it varies by half of it.
    pub rtt_ms: u64,
    /// Batches in thousandths that are answered late, wrongly, in part, twice or never, or
    /// at which the connection is lost.
    pub failure: u64,
    /// How long a batch may take.
    pub timeout_ms: u64,
    /// Databases that hold the same users.
    pub replicas: usize,
    /// Questions that are held at once.
    pub questions_max: usize,
    /// Whether there is a cache before it.
    pub has_cache: bool,
    /// Phones that have a user's name and not his password.
    pub impostors: u64,
}

/// The operator's hook, which is asked about calls, messages and registrations. Chances are in
/// thousandths.
#[derive(Clone, Copy, Debug)]
pub struct Hooked {
    /// The time from a request to its answer; it varies by half of it.
    pub rtt_ms: u64,
    /// Requests that are answered late, wrongly, in part, twice or never, or refused, or at which
    /// it goes away.
    pub failure: u64,
    /// What it rejects.
    pub rejects: u64,
    /// What it sends elsewhere.
    pub turns: u64,
    /// Whether calls go on where it fails.
    pub goes_on: bool,
}

impl Hooked {
    /// How long a call waits for it.
    pub const TIMEOUT_MS: u64 = 1_000;
}

/// How name servers behave. Chances are in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct Dns {
    /// The longest that an answer usually takes.
    pub delay_max_ms: u64,
    /// Questions that fail or are not answered.
    pub failure: u64,
    /// Resolutions whose end is told after the asker's patience ended.
    pub stall: u64,
    /// Whether the carrier's domain states which transports it prefers.
    pub has_naptr: bool,
}

/// Media engines. Chances are in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct Media {
    /// How many there are.
    pub engines: u8,
    /// The longest that an answer usually takes.
    pub delay_max_ms: u64,
    /// Datagrams that are lost, either way.
    pub loss: u64,
    /// Answers that come when the asker may have given up.
    pub late: u64,
    /// Answers that come twice.
    pub twice: u64,
    /// Offers for which an engine has no room.
    pub full: u64,
    /// How often each of them dies; it returns, and knows no call any more.
    pub deaths: u64,
}

/// What stands against the server, where somebody does.
#[derive(Clone, Copy, Debug)]
pub struct Hostility {
    /// The neighbour's standing.
    pub neighbour: Standing,
    /// Whether strangers may call the users.
    pub is_open_to_strangers: bool,
    /// Whether the list of trusted peers covers the server's own address.
    pub trusts_own_network: bool,
    /// Whether the hostile ones come over streams.
    pub uses_streams: bool,
    /// Messages that each of them makes up.
    pub messages: u64,
}

/// How a neighbour stands in the list of trusted peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not in it.
    Unlisted,
    /// It may call the users, in the name of its own domain.
    Listed,
    /// It may call others through the server as well.
    Relays,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Everything that is left to chance comes from here.
    pub seed: u64,
    /// The server's workers.
    pub workers: usize,
    /// How long a worker may take to look at what has come.
    pub wake_max_ms: u64,
    /// What a worker has room for of what others hand over.
    pub handover_max: usize,
    /// What the messages of each worker may hold, beside its tables.
    pub memory_bytes: u64,
    /// Calls to make.
    pub calls: u64,
    /// The mean time between two calls.
    pub call_interval_ms: u64,
    /// Users; each has one or two phones.
    pub users: usize,
    /// Computers that the phones are on.
    pub hosts: usize,
    /// Hosts that use a stream each for their phones, in thousandths.
    pub streams: u64,
    /// The network.
    pub weather: Weather,
    /// The store.
    pub store: Store,
    /// Where users are not in the store of this machine.
    pub distance: Option<Distance>,
    /// How name servers behave.
    pub dns: Dns,
    /// What stands between the server and phones that use datagrams.
    pub nat: Option<Translation>,
    /// Calls and requests to numbers and to foreign domains, in thousandths.
    pub outward: u64,
    /// How often each gateway dies; it returns.
    pub deaths: u64,
    /// Whether each call has a connection to its gateway.
    pub has_lanes: bool,
    /// Whether gateways are probed, and left early for others.
    pub probes: bool,
    /// How often the process is killed and started again.
    pub restarts: u64,
    /// How often other settings are taken over.
    pub reloads: u64,
    /// Who is hostile.
    pub hostility: Option<Hostility>,
    /// Whether the operator has a hook.
    pub hook: Option<Hooked>,
    /// The engines that lead the media, where any do.
    pub media: Option<Media>,
}

impl Plan {
    /// A run whose weather the seed chooses, from none at all to half of the
    /// datagrams lost.
    pub fn of_seed(seed: u64, calls: u64) -> Self {
        let mut dice = crate::Dice::new(seed, 1);
        let loss = match dice.below(5) {
            0 => 0,
            1 => dice.between(1, 50),
            2 => dice.between(50, 200),
            3 => dice.between(200, 400),
            _ => 500,
        };
        let is_calm = dice.below(4) == 0;
        let plan = Self {
            seed,
            workers: [1, 2, 4][dice.below(3) as usize],
            wake_max_ms: [0, 1, 20][dice.below(3) as usize],
            handover_max: [1_024, 1_024, 4][dice.below(3) as usize],
            memory_bytes: [1 << 30, 1 << 30, 5 << 20][dice.below(3) as usize],
            calls,
            call_interval_ms: dice.between(5, 60),
            users: dice.between(4, 24) as usize,
            hosts: dice.between(2, 8) as usize,
            streams: [0, 300, 500, 1_000][dice.below(4) as usize],
            weather: Weather {
                loss,
                repeat: if is_calm { 0 } else { dice.between(0, 500) },
                delay_min_ms: dice.between(0, 5),
                delay_max_ms: if is_calm { 5 } else { dice.between(5, 800) },
                breakage: if is_calm { 0 } else { dice.between(0, 10) },
                refusal: if is_calm {
                    0
                } else {
                    dice.below(3) * dice.below(30)
                },
            },
            store: Store {
                delay_max_ms: dice.between(1, 100),
                failure: if is_calm { 0 } else { dice.between(0, 30) },
                stall: if is_calm { 0 } else { dice.between(0, 5) },
                full: if is_calm { 0 } else { dice.between(0, 5) },
            },
            dns: Dns {
                delay_max_ms: dice.between(0, 600),
                failure: if is_calm { 0 } else { dice.between(0, 200) },
                stall: if is_calm { 0 } else { dice.between(0, 20) },
                has_naptr: dice.below(2) == 0,
            },
            nat: Translation::of_seed(seed),
            outward: dice.between(0, 300),
            deaths: if is_calm { 0 } else { dice.between(0, 2) },
            has_lanes: dice.below(3) == 0,
            probes: false,
            restarts: if is_calm { 0 } else { dice.between(0, 2) },
            reloads: dice.between(0, 3),
            hostility: None,
            hook: None,
            distance: None,
            media: None,
        };
        let distance = (dice.below(2) == 0).then(|| Distance {
            rtt_ms: dice.between(1, 100),
            failure: if is_calm { 0 } else { dice.between(0, 100) },
            timeout_ms: dice.between(300, 3_000),
            replicas: dice.between(1, 2) as usize,
            questions_max: [8, 10_000][dice.below(2) as usize],
            has_cache: dice.below(2) == 0,
            impostors: if is_calm { 0 } else { dice.below(3) },
        });
        let probes = dice.below(2) == 0;
        // Dice of its own: worlds without a hook are as they were.
        let mut own = crate::Dice::new(seed, 11);
        let hook = (own.below(3) == 0).then(|| Hooked {
            rtt_ms: own.between(1, 60),
            failure: if is_calm { 0 } else { own.between(0, 300) },
            rejects: own.between(0, 100),
            turns: own.between(0, 100),
            goes_on: own.below(2) == 0,
        });
        let media = (dice.below(3) == 0).then(|| Media {
            engines: dice.between(1, 3) as u8,
            delay_max_ms: dice.between(0, 300),
            loss: if is_calm { 0 } else { dice.between(0, 300) },
            late: if is_calm { 0 } else { dice.between(0, 100) },
            twice: if is_calm { 0 } else { dice.between(0, 300) },
            full: if is_calm { 0 } else { dice.between(0, 50) },
            deaths: if is_calm { 0 } else { dice.between(0, 2) },
        });
        Self {
            distance,
            probes,
            hook,
            media,
            ..plan
        }
    }

    /// A run in which nothing goes wrong: every call must succeed that its
    /// users want to succeed.
    pub fn calm(seed: u64, calls: u64) -> Self {
        let mut plan = Self::of_seed(seed, calls);
        plan.weather = Weather {
            loss: 0,
            repeat: 0,
            delay_min_ms: 1,
            delay_max_ms: 1,
            breakage: 0,
            refusal: 0,
        };
        plan.store = Store {
            delay_max_ms: 20,
            failure: 0,
            stall: 0,
            full: 0,
        };
        plan.dns = Dns {
            failure: 0,
            stall: 0,
            ..plan.dns
        };
        plan.distance = plan.distance.map(|distance| Distance {
            rtt_ms: distance.rtt_ms.min(20),
            failure: 0,
            questions_max: 10_000,
            impostors: 0,
            ..distance
        });
        plan.nat = plan.nat.filter(Translation::is_kept_open);
        plan.hook = plan.hook.map(|hook| Hooked {
            failure: 0,
            rejects: 0,
            turns: 0,
            ..hook
        });
        (plan.handover_max, plan.memory_bytes) = (1_024, 1 << 30);
        (plan.deaths, plan.restarts) = (0, 0);
        plan.media = plan.media.map(|media| Media {
            delay_max_ms: media.delay_max_ms.min(50),
            loss: 0,
            late: 0,
            full: 0,
            deaths: 0,
            ..media
        });
        plan
    }

    /// A small run in fair weather, with a hostile neighbour and a hostile user in it.
    pub fn hostile(seed: u64) -> Self {
        let mut dice = crate::Dice::new(seed, 5);
        let mut plan = Self::calm(seed, dice.between(12, 20));
        plan.users = dice.between(2, 4) as usize;
        plan.outward = 0;
        plan.nat = None;
        // The warden reads what passes, and engines write it anew.
        plan.media = None;
        plan.restarts = u64::from(dice.below(4) == 0);
        plan.hosts = 2;
        plan.hook = None;
        plan.call_interval_ms = dice.between(100, 600);
        plan.weather.delay_max_ms = dice.between(1, 5);
        plan.hostility = Some(Hostility {
            neighbour: [Standing::Unlisted, Standing::Listed, Standing::Relays]
                [dice.below(3) as usize],
            is_open_to_strangers: dice.below(3) == 0,
            trusts_own_network: dice.below(3) == 0,
            uses_streams: dice.below(4) == 0,
            messages: dice.between(40, 90),
        });
        plan
    }
}
