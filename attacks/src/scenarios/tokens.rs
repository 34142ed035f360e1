//! What the signed routes of a dialog open. The cases are generated:
//! Request-URI, Route list, From, tags, method and source in every combination,
//! against a model of what may be reached.

use std::collections::HashMap;

use crate::phone::PATIENCE;
use crate::scenario::{Scale, Scenario, Tally};
use crate::wire::{Draft, MARK, Text, tag_of, uri_of, word};
use crate::world::{World, fresh_source};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "token.toll-fraud",
        tries: "The called side of one call uses the token of its Record-Route as Request-URI, with a number or a user behind it in Route, in another's name.",
        through: "a request that reaches the gateway or somebody who is not of the call.",
        setup: |_| {},
        not_kamailio: None,
        run: toll_fraud,
    },
    Scenario {
        name: "token.matrix",
        tries: "Request-URI, Route list, From, tags, method, Call-ID and source in every combination, with the tokens of a real call.",
        through: "a request that reaches somebody whom the dialog did not show, or under names, tags or a Call-ID that are not the dialog's.",
        setup: |_| {},
        not_kamailio: None,
        run: matrix,
    },
    Scenario {
        name: "token.other-call",
        tries: "The token of one call within another call, and after the call has ended toward others.",
        through: "a request that reaches anybody.",
        setup: |_| {},
        not_kamailio: None,
        run: other_call,
    },
];

/// A call of alice to somebody's server elsewhere, as that server has it.
pub(super) struct Harvest {
    /// The INVITE as it came there.
    invite: Text,
    call_id: String,
    /// Our own tag and the caller's.
    own_tag: String,
    peer_tag: String,
    pub(super) own_uri: String,
    /// Routes of this server, as they came.
    routes: Vec<String>,
    peer_contact: String,
    /// The routes that the caller was shown.
    caller_routes: Vec<String>,
}

pub(super) fn harvest(world: &World) -> Result<Harvest, String> {
    let own_uri = format!("sip:owner@{}", world.foreign.local);
    let mark = word("harvest");
    let draft = world.alice.invite(&world.alice_aor(), &own_uri).mark(&mark);
    let dialog = world
        .alice
        .call(world.to(), &draft, world.alice_account())?;
    let marked = |r: &Text| r.header(MARK) == Some(&mark) && r.method() == "INVITE";
    let invite = world
        .foreign
        .wait_for(PATIENCE, marked)
        .ok_or("the call did not arrive elsewhere")?;
    let routes = invite.addresses("Record-Route");
    if routes.is_empty() {
        return Err("the server does not record routes".to_owned());
    }
    Ok(Harvest {
        call_id: dialog.invite.call_id.clone(),
        own_tag: dialog.to_tag.clone(),
        peer_tag: invite.header("From").and_then(tag_of).unwrap_or_default(),
        own_uri,
        routes,
        peer_contact: invite
            .header("Contact")
            .map_or(String::new(), |c| uri_of(c).to_owned()),
        caller_routes: dialog.routes,
        invite,
    })
}

impl Harvest {
    /// A request as the called side may send it, to the caller.
    pub(super) fn right(&self, world: &World, method: &str) -> Draft {
        let mut draft = Draft::new(method, &self.own_uri, &world.alice_aor());
        draft.uri.clone_from(&self.peer_contact);
        draft.from_tag = Some(self.own_tag.clone());
        draft.to_tag = Some(self.peer_tag.clone());
        draft.call_id.clone_from(&self.call_id);
        draft.routes.clone_from(&self.routes);
        draft.cseq = 10;
        draft
    }

    /// The route's URI without brackets, on another host.
    fn token_at(&self, host: &str) -> String {
        let uri = self.routes.first().map_or("", |r| uri_of(r));
        match uri.split_once('@') {
            Some((user, _)) => format!("{user}@{host};lr"),
            None => uri.to_owned(),
        }
    }
}

fn toll_fraud(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let got = harvest(world)?;
    let mark = word("toll");
    let place = world.server.place();
    let beyond = [
        world.number(),
        world.bob_aor(),
        format!("sip:x@{}", world.gateway.local),
    ];
    for host in ["x.invalid", &place, &world.domain] {
        for to in &beyond {
            for from in [world.ceo_aor(), got.own_uri.clone(), world.alice_aor()] {
                for method in ["INVITE", "MESSAGE", "BYE", "FOO"] {
                    let mut draft = Draft::new(method, &from, &world.alice_aor()).mark(&mark);
                    draft.uri = got.token_at(host);
                    draft.to_tag = Some("any".to_owned());
                    draft.call_id.clone_from(&got.call_id);
                    draft = draft.contact(&world.foreign.contact());
                    draft.routes = vec![format!("<{}>", got.token_at(&place)), format!("<{to}>")];
                    crate::world::send_fresh(world.to(), &draft)?;
                    tally.try_many(1);
                }
            }
        }
    }
    world.settle();
    tally.break_in(world.gateway.marked(&mark), || {
        "the gateway was reached".to_owned()
    });
    tally.break_in(world.bob.marked(&mark), || "bob was reached".to_owned());
    Ok(tally)
}

/// What is varied, each with its name.
struct Ways {
    to: String,
    uris: Vec<(&'static str, String)>,
    routes: Vec<(&'static str, Vec<String>)>,
    froms: Vec<(&'static str, String)>,
    tags: Vec<(&'static str, Option<String>, Option<String>)>,
    methods: [&'static str; 6],
    call_ids: [(&'static str, String); 2],
}

fn ways(world: &World, got: &Harvest) -> Ways {
    let own = got.routes.clone();
    let and = |more: String| own.iter().cloned().chain([format!("<{more}>")]).collect();
    let place = world.server.place();
    let gateway = format!("sip:+1900555@{}", world.gateway.local);
    let inside = format!("sip:x@{}", world.inside.local);
    let bob_contact = uri_of(&world.bob.contact()).to_owned();
    Ways {
        to: world.alice_aor(),
        uris: vec![
            ("the peer's contact", got.peer_contact.clone()),
            ("bob", world.bob_aor()),
            ("bob's contact", bob_contact.clone()),
            ("a number", world.number()),
            ("the gateway", gateway.clone()),
            ("a host inside", inside.clone()),
            ("the token elsewhere", got.token_at("x.invalid")),
            ("the token here", got.token_at(&place)),
        ],
        routes: vec![
            ("none", Vec::new()),
            ("the dialog's", own.clone()),
            ("and a number", and(format!("{};lr", world.number()))),
            ("and bob", and(world.bob_aor())),
            ("and the gateway", and(format!("{gateway};lr"))),
            ("and a host inside", and(inside)),
            ("and the peer", and(got.peer_contact.clone())),
            ("the caller's", got.caller_routes.clone()),
            ("the server's name", vec![format!("<sip:{place};lr>")]),
        ],
        froms: vec![
            ("itself", got.own_uri.clone()),
            ("alice", world.alice_aor()),
            ("ceo", world.ceo_aor()),
            ("somebody", "sip:somebody@x.invalid".to_owned()),
        ],
        tags: vec![
            (
                "right",
                Some(got.own_tag.clone()),
                Some(got.peer_tag.clone()),
            ),
            (
                "exchanged",
                Some(got.peer_tag.clone()),
                Some(got.own_tag.clone()),
            ),
            ("wrong", Some(got.own_tag.clone()), Some("wrong".to_owned())),
            ("none", Some(got.own_tag.clone()), None),
        ],
        methods: ["INVITE", "BYE", "ACK", "MESSAGE", "REGISTER", "REFER"],
        call_ids: [("its", got.call_id.clone()), ("another", word("c"))],
    }
}

/// One combination of the ways.
struct Case<'a> {
    /// Its number, counted from one.
    number: u64,
    draft: Draft,
    uri: &'a str,
    route: &'a str,
    from: &'a str,
    tags: &'a str,
    call_id: &'a str,
}

impl Ways {
    /// Every combination.
    fn cases(&self) -> impl Iterator<Item = Case<'_>> {
        let heads = self.uris.iter().flat_map(move |uri| {
            let routes = self.routes.iter();
            routes.flat_map(move |route| self.froms.iter().map(move |from| (uri, route, from)))
        });
        let tails = move || {
            self.tags.iter().flat_map(move |tags| {
                let methods = self.methods.iter();
                methods.flat_map(move |method| {
                    self.call_ids
                        .iter()
                        .map(move |call_id| (tags, method, call_id))
                })
            })
        };
        let all = heads.flat_map(move |head| tails().map(move |tail| (head, tail)));
        all.zip(1..)
            .map(|(((uri, route, from), (tags, method, call_id)), number)| {
                let mut draft = Draft::new(method, &from.1, &self.to);
                draft.uri.clone_from(&uri.1);
                draft.routes.clone_from(&route.1);
                draft.from_tag.clone_from(&tags.1);
                draft.to_tag.clone_from(&tags.2);
                draft.call_id.clone_from(&call_id.1);
                draft.cseq = 20 + u32::try_from(number).unwrap_or(0);
                Case {
                    number,
                    draft,
                    uri: uri.0,
                    route: route.0,
                    from: from.0,
                    tags: tags.0,
                    call_id: call_id.0,
                }
            })
    }
}

impl Case<'_> {
    fn name(&self) -> String {
        format!(
            "{} to {}, Route: {}, From: {}, tags: {}, Call-ID: {}",
            self.draft.method, self.uri, self.route, self.from, self.tags, self.call_id
        )
    }

    /// The model: with the dialog's names, tags and Call-ID the peer's contact
    /// may be reached, by the dialog's route set or as a strict router writes
    /// it, and nobody else.
    fn may_reach_peer(&self) -> bool {
        (self.from, self.tags, self.call_id) == ("itself", "right", "its")
            && self.draft.method != "REGISTER"
            && matches!(
                (self.uri, self.route),
                ("the peer's contact", "the dialog's") | ("the token here", "and the peer")
            )
    }
}

fn matrix(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let got = harvest(world)?;
    let right = got.right(world, "INFO");
    let answer = world.foreign.ask(world.to(), &right)?;
    if answer.status() != Some(200) {
        tally.break_in(1, || format!("the dialog's own INFO got {}", answer.start));
    }
    let ways = ways(world, &got);
    let prefix = word("matrix");
    // Quick takes one in so many, another residue of each dimension in turn.
    let stride = scale.of(7, 1);
    let mut names: HashMap<String, (String, bool)> = HashMap::new();
    let mut source = fresh_source()?;
    for case in ways.cases().filter(|c| c.number.is_multiple_of(stride)) {
        let n = case.number;
        let mark = format!("{prefix}.{n}");
        names.insert(mark.clone(), (case.name(), case.may_reach_peer()));
        let draft = case.draft.mark(&mark).contact(&world.foreign.contact());
        // A server may stop listening to who asks for too much.
        if n.is_multiple_of(8 * stride) {
            source = fresh_source()?;
        }
        if n.is_multiple_of(40 * stride) {
            world.foreign.send(world.to(), &draft);
        } else {
            let local = source.local_addr().map_err(|e| e.to_string())?;
            let _ = source.send_to(&draft.render(local, "UDP"), world.to());
        }
        tally.try_many(1);
        if tally.tried.is_multiple_of(64) {
            world.settle_briefly();
        }
    }
    world.settle();
    judge(world, &prefix, &names, &mut tally);
    let bye = got.right(world, "BYE");
    let answer = world.foreign.ask(world.to(), &bye.again());
    tally.judge(
        !answer.as_ref().is_ok_and(|a| a.status() == Some(200)),
        || format!("the dialog's own BYE got {:?}", answer.map(|a| a.start)),
    );
    Ok(tally)
}

fn judge(world: &World, prefix: &str, names: &HashMap<String, (String, bool)>, tally: &mut Tally) {
    let places = [
        ("alice", &world.alice),
        ("bob", &world.bob),
        ("ceo", &world.ceo),
        ("the gateway", &world.gateway),
        ("a host inside", &world.inside),
        ("its sender", &world.foreign),
    ];
    for (who, phone) in places {
        let found = phone.seen(|r| r.header(MARK).is_some_and(|m| m.starts_with(prefix)));
        let mut marks: Vec<&str> = found.iter().filter_map(|r| r.header(MARK)).collect();
        marks.sort_unstable();
        marks.dedup();
        let mut bad = marks
            .iter()
            .filter_map(|mark| names.get(*mark))
            .filter(|(_, allowed)| !(*allowed && who == "alice"));
        let first = bad.next();
        if let Some((name, _)) = first {
            let times = 1 + bad.count() as u64;
            tally.break_in(times, || {
                format!("{who} was reached {times} times, as by {name}")
            });
        }
    }
}

fn other_call(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let (one, two) = (harvest(world)?, harvest(world)?);
    let mark = word("other");
    for method in ["INVITE", "BYE", "MESSAGE", "REFER", "ACK"] {
        // The tags and the Call-ID of one call, the route of the other.
        let mut draft = one.right(world, method).mark(&mark);
        draft.routes.clone_from(&two.routes);
        crate::world::send_fresh(world.to(), &draft)?;
        let mut draft = one.right(world, method).mark(&mark);
        draft.call_id.clone_from(&two.call_id);
        crate::world::send_fresh(world.to(), &draft)?;
        tally.try_many(2);
    }
    let bye = one.right(world, "BYE");
    let ended = world.foreign.ask(world.to(), &bye)?;
    tally.judge(ended.status() != Some(200), || {
        format!("the dialog's own BYE got {}", ended.start)
    });
    for method in ["INVITE", "MESSAGE", "REGISTER"] {
        for uri in [
            world.bob_aor(),
            world.number(),
            uri_of(&world.bob.contact()).to_owned(),
        ] {
            let mut draft = one.right(world, method).mark(&mark);
            draft.uri = uri;
            crate::world::send_fresh(world.to(), &draft)?;
            tally.try_many(1);
        }
    }
    world.settle();
    debug_assert!(
        one.invite.status().is_none(),
        "what was harvested is a request"
    );
    tally.break_in(world.reached(&mark), || {
        "a token of another call, or after its end, led on".to_owned()
    });
    Ok(tally)
}
