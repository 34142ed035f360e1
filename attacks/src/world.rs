//! The people around a server under test: two who call each other, a third
//! one, a gateway, a host elsewhere, a host inside, who attacks, and an office with its provider.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::time::Duration;

use crate::digest::Account;
use crate::house::{House, leaked_to, misled, people};
use crate::phone::{PATIENCE, Phone};
use crate::resolver::Resolver;
use crate::target::{Server, Setup, Target};
use crate::wire::{Draft, unique};

/// How many callers share the calls beside a flood.
const CALLERS: usize = 20;
/// What an attempt may take to arrive where it must not, once the server has
/// answered what came after it.
const SETTLE: Duration = Duration::from_millis(120);

/// A server with people around it.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) domain: String,
    pub(crate) alice: Phone,
    pub(crate) bob: Phone,
    pub(crate) ceo: Phone,
    /// Has an account, and misuses it.
    pub(crate) mallory: Phone,
    /// Where numbers are routed to.
    pub(crate) gateway: Phone,
    /// Somebody's server elsewhere.
    pub(crate) foreign: Phone,
    /// A host in a network to which nothing is relayed.
    pub(crate) inside: Phone,
    /// A peer that is trusted by its address.
    pub(crate) peer: Phone,
    /// Where somebody listens who is not the gateway.
    pub(crate) impostor: TcpListener,
    /// The office's provider and hook; nobody but Signet is told of them.
    pub(crate) house: House,
    _resolver: Resolver,
    accounts: Accounts,
}

/// The users.
struct Accounts {
    alice: Account,
    bob: Account,
    ceo: Account,
    mallory: Account,
    callers: Vec<Account>,
}

impl World {
    /// Starts the server and registers who is called.
    pub(crate) fn start(target: &Target, mut setup: Setup, folder: &Path) -> Result<Self, String> {
        let gateway = Phone::at([127, 0, 3, 1])?;
        if setup.gateway.is_empty() {
            setup.gateway = format!("sip:{}", gateway.local);
        }
        let impostor = TcpListener::bind("127.0.3.1:0").map_err(|e| e.to_string())?;
        let _ = impostor.set_nonblocking(true);
        let impostor_port = impostor.local_addr().map_or(0, |local| local.port());
        let resolver = Resolver::start(Ipv4Addr::new(127, 0, 3, 1))?;
        setup.name_server = resolver.local.to_string();
        setup.gateway = setup
            .gateway
            .replace("@PORT@", &gateway.local.port().to_string())
            .replace("@IMPOSTOR@", &impostor_port.to_string());
        let house = House::start()?;
        let (domain, accounts) = match target {
            Target::Running(running) => {
                let accounts = running.users.iter().map(|(u, p)| Account::new(u, p));
                (running.domain.clone(), accounts.collect::<Vec<_>>())
            }
            _ => ("example.test".to_owned(), own_accounts()),
        };
        let mut users = accounts.clone();
        if matches!(target, Target::Signet(_)) && setup.has_house {
            house.write(&mut setup);
            users.extend(people());
        }
        let server = target.start(&setup, &domain, &users, folder)?;
        let accounts = Accounts::of(accounts)?;
        let world = Self {
            server,
            domain,
            alice: Phone::at([127, 0, 2, 1])?,
            bob: Phone::at([127, 0, 2, 2])?,
            ceo: Phone::at([127, 0, 2, 3])?,
            mallory: Phone::at([127, 0, 1, 1])?,
            gateway,
            foreign: Phone::at([127, 0, 4, 1])?,
            inside: Phone::at([127, 0, 9, 1])?,
            peer: Phone::at([127, 0, 0, 2])?,
            impostor,
            house,
            _resolver: resolver,
            accounts,
        };
        for (phone, account) in [
            (&world.alice, world.alice_account()),
            (&world.bob, world.bob_account()),
            (&world.ceo, world.ceo_account()),
        ] {
            phone.register(world.to(), &world.domain, account)?;
        }
        Ok(world)
    }

    /// The server's address for UDP.
    pub(crate) fn to(&self) -> SocketAddr {
        self.server.udp
    }

    pub(crate) fn alice_account(&self) -> &Account {
        &self.accounts.alice
    }

    pub(crate) fn bob_account(&self) -> &Account {
        &self.accounts.bob
    }

    pub(crate) fn ceo_account(&self) -> &Account {
        &self.accounts.ceo
    }

    pub(crate) fn mallory_account(&self) -> &Account {
        &self.accounts.mallory
    }

    /// The accounts of those who call beside a flood.
    pub(crate) fn callers(&self) -> Vec<Account> {
        if self.accounts.callers.is_empty() {
            vec![self.accounts.alice.clone()]
        } else {
            self.accounts.callers.clone()
        }
    }

    /// A user's address-of-record.
    pub(crate) fn aor(&self, account: &Account) -> String {
        format!("sip:{}@{}", account.user, self.domain)
    }

    pub(crate) fn alice_aor(&self) -> String {
        self.aor(self.alice_account())
    }

    pub(crate) fn bob_aor(&self) -> String {
        self.aor(self.bob_account())
    }

    pub(crate) fn ceo_aor(&self) -> String {
        self.aor(self.ceo_account())
    }

    pub(crate) fn mallory_aor(&self) -> String {
        self.aor(self.mallory_account())
    }

    /// A number that the gateway charges for.
    pub(crate) fn number(&self) -> String {
        format!("sip:+1900555@{}", self.domain)
    }

    /// Waits until what was sent has had time to arrive: the server has answered
    /// something that was sent later.
    pub(crate) fn settle(&self) {
        let _ = self.server.answers(PATIENCE);
        std::thread::sleep(SETTLE);
    }

    /// Waits until the server has taken what was sent, so that its socket does
    /// not drop what follows.
    pub(crate) fn settle_briefly(&self) {
        let _ = self.server.answers(PATIENCE);
    }

    /// Requests of an attempt that reached anybody of value: users, the
    /// gateway, hosts inside.
    pub(crate) fn reached(&self, mark: &str) -> u64 {
        [
            &self.alice,
            &self.bob,
            &self.ceo,
            &self.gateway,
            &self.inside,
            &self.house.provider,
            &self.house.beside,
        ]
        .iter()
        .map(|phone| phone.marked(mark))
        .sum()
    }

    /// Where anything computed from the trunk's password went but to the provider for its own
    /// realm.
    pub(crate) fn leaks(&self) -> Vec<String> {
        let others = [
            ("alice", &self.alice),
            ("bob", &self.bob),
            ("ceo", &self.ceo),
            ("mallory", &self.mallory),
            ("the gateway", &self.gateway),
            ("a foreign host", &self.foreign),
            ("a host inside", &self.inside),
            ("a trusted peer", &self.peer),
            ("another port of the provider's address", &self.house.beside),
        ];
        let to_others = others.into_iter().flat_map(|(who, phone)| {
            let seen = leaked_to(phone);
            seen.into_iter().map(move |request| {
                format!("{who} was shown the trunk's password: {}", request.start)
            })
        });
        let to_it = misled(&self.house.provider);
        let to_it = to_it.iter().map(|request| {
            format!(
                "the provider was shown what it had not asked for: {}",
                request.start
            )
        });
        to_others.chain(to_it).collect()
    }

    /// Whether alice can call bob and hang up.
    pub(crate) fn call_works(&self) -> Result<(), String> {
        let invite = self.alice.invite(&self.alice_aor(), &self.bob_aor());
        let mut dialog = self.alice.call(self.to(), &invite, self.alice_account())?;
        let bye = dialog.request("BYE");
        match self.alice.ask(self.to(), &bye)?.status() {
            Some(200) => Ok(()),
            status => Err(format!("the BYE of a call got {status:?}")),
        }
    }
}

impl Accounts {
    fn of(accounts: Vec<Account>) -> Result<Self, String> {
        let mut accounts = accounts.into_iter();
        let mut next = || accounts.next().ok_or("four users are needed");
        Ok(Self {
            alice: next()?,
            bob: next()?,
            ceo: next()?,
            mallory: next()?,
            callers: accounts.collect(),
        })
    }
}

fn own_accounts() -> Vec<Account> {
    let names = ["alice", "bob", "ceo", "mallory"].map(str::to_owned);
    let callers = (0..CALLERS).map(|n| format!("caller{n}"));
    names
        .into_iter()
        .chain(callers)
        .map(|name| Account::new(&name, &format!("secret of {name}")))
        .collect()
}

/// An address at which nobody was before, so that what a server remembers of
/// sources does not decide other attempts.
fn fresh_address() -> Ipv4Addr {
    let n = u32::try_from(unique() % 4_000_000).unwrap_or(0);
    // 127.16.0.0 and on: nobody else is there.
    Ipv4Addr::from(0x7f10_0001 + n)
}

/// A socket of a source that was not seen before.
pub(crate) fn fresh_source() -> Result<UdpSocket, String> {
    let address = fresh_address();
    UdpSocket::bind((address, 0)).map_err(|e| format!("cannot bind {address}: {e}"))
}

/// A phone of somebody who was not seen before.
pub(crate) fn fresh_phone() -> Result<Phone, String> {
    Phone::start(fresh_address().into())
}

/// Sends a request from a source that was not seen before.
pub(crate) fn send_fresh(to: SocketAddr, draft: &Draft) -> Result<UdpSocket, String> {
    let socket = fresh_source()?;
    let local = socket.local_addr().map_err(|e| e.to_string())?;
    let _ = socket.send_to(&draft.render(local, "UDP"), to);
    Ok(socket)
}
