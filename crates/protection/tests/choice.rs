//! Whatever is offered and asked for: what is chosen satisfies the policy, nothing cheaper
//! does, and the floor holds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use protection::{Aspect, Level, Levels, Member, Miss, Policy, Protection, Reason, Side, choose};

const PARTS: [&str; 18] = [
    "AES-128-GCM",
    "AES-256-GCM",
    "AES-128-CBC",
    "3DES-CBC",
    "Blowfish-128-CBC",
    "ChaCha20-Poly1305",
    "HMAC-MD5-96",
    "HMAC-SHA1-96",
    "HMAC-SHA-256-128",
    "X25519",
    "P-384",
    "X25519MLKEM768",
    "RSA key transport",
    "TLS 1.2",
    // Below the floor.
    "DES-CBC",
    "RC4",
    "NULL",
    "SSLv3",
];
const SOUND: usize = 14;

fn member(nth: usize) -> impl Strategy<Value = Member> {
    let parts = prop::collection::vec(prop::sample::select(PARTS.to_vec()), 0..3);
    let cost_ns = prop::option::weighted(0.9, 1_u32..50);
    (parts, cost_ns, 0_u8..4).prop_map(move |(parts, cost_ns, fits)| Member {
        name: format!("m{nth}"),
        parts,
        cost_ns: cost_ns.map(f64::from),
        fits,
        excluded: None,
    })
}

fn side(what: &'static str) -> impl Strategy<Value = Side> {
    (0_usize..6)
        .prop_flat_map(|count| (0..count).map(member).collect::<Vec<_>>())
        .prop_map(move |members| Side {
            what,
            members,
            is_given: false,
        })
}

fn policy() -> impl Strategy<Value = Policy> {
    let level = || prop::option::of((0_u8..=10).prop_map(|number| Level::new(number).unwrap()));
    let max = prop::option::of((1_u32..100).prop_map(f64::from));
    (
        level(),
        level(),
        prop::option::weighted(0.2, 0_u8..=10),
        max,
    )
        .prop_map(
            |(min_confidentiality, min_authentication, secrecy, max_cost_ns)| Policy {
                min_confidentiality,
                min_authentication,
                min_forward_secrecy: secrecy.and_then(Level::new),
                max_cost_ns,
            },
        )
}

/// What a pair is worth and costs, worked out again in the plainest way; `None` where it is
/// none or is below the floor.
fn worth(first: &Member, second: &Member) -> Option<(Protection, Option<f64>)> {
    let parts = || first.parts.iter().chain(&second.parts);
    let is_broken = parts().any(|part| !PARTS[..SOUND].contains(part));
    if first.fits & second.fits == 0 || is_broken {
        return None;
    }
    let levels = Levels::shipped();
    let lowest = |aspect| {
        parts()
            .filter_map(|part| levels.get(part).unwrap().protection().of(aspect))
            .min()
    };
    let protection = Protection {
        confidentiality: lowest(Aspect::Confidentiality),
        authentication: lowest(Aspect::Authentication),
        forward_secrecy: lowest(Aspect::ForwardSecrecy),
    };
    let cost_ns = first.cost_ns.zip(second.cost_ns).map(|(a, b)| a + b);
    Some((protection, cost_ns))
}

fn satisfies(policy: &Policy, protection: &Protection, cost_ns: Option<f64>) -> bool {
    let levels = Aspect::ALL.into_iter().all(|aspect| {
        let least = policy.least(aspect);
        least.is_none_or(|least| protection.of(aspect).unwrap_or(Level::ZERO) >= least)
    });
    let cost = policy
        .max_cost_ns
        .is_none_or(|max| cost_ns.is_some_and(|cost| cost <= max));
    levels && cost
}

fn named<'s>(side: &'s Side, name: &str) -> &'s Member {
    side.members
        .iter()
        .find(|member| member.name == name)
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_chosen_satisfies_the_policy_and_nothing_cheaper_does(
        policy in policy(), first in side("suite"), second in side("group"),
    ) {
        let levels = Levels::shipped();
        let all = first.members.iter().flat_map(|a| {
            second.members.iter().filter_map(move |b| worth(a, b))
        });
        let good: Vec<Option<f64>> = all
            .filter(|(protection, cost)| satisfies(&policy, protection, *cost))
            .map(|(_, cost)| cost)
            .collect();
        let known = |cost: Option<f64>| cost.unwrap_or(f64::INFINITY);
        let cheapest = good.iter().copied().map(known).fold(f64::INFINITY, f64::min);
        match choose(&policy, &levels, &first, &second) {
            Ok(choice) => {
                prop_assert!(!good.is_empty());
                // Every pair that the other end can make of the lists is good.
                for a in &choice.first {
                    for b in &choice.second {
                        if named(&first, a).fits & named(&second, b).fits == 0 {
                            continue;
                        }
                        let pair = worth(named(&first, a), named(&second, b));
                        prop_assert!(pair.is_some(), "{a} with {b} is below the floor");
                        let (protection, cost) = pair.unwrap();
                        prop_assert!(satisfies(&policy, &protection, cost), "{a} with {b}");
                    }
                }
                let best = &choice.pairs[0];
                prop_assert_eq!(known(best.cost_ns), cheapest);
                prop_assert_eq!((&best.first, &best.second), (&choice.first[0], &choice.second[0]));
                // Each member is taken or told of, once.
                for (side, taken) in [(&first, &choice.first), (&second, &choice.second)] {
                    for member in &side.members {
                        let told = choice.fallen.iter().filter(|fallen| {
                            fallen.what == side.what && fallen.name == member.name
                        });
                        let count = told.count() + usize::from(taken.contains(&member.name));
                        prop_assert_eq!(count, 1, "{}", &member.name);
                    }
                }
                for fallen in &choice.fallen {
                    prop_assert!(!fallen.reasons.is_empty());
                }
            }
            Err(unmet) => {
                prop_assert!(good.is_empty());
                // Each relaxation that is said to do does, and one step less does not.
                for relaxed in &unmet.relaxed {
                    let mut lower = policy;
                    let mut a_step_less = policy;
                    for miss in &relaxed.misses {
                        match *miss {
                            Miss::Below { aspect, level, .. } => {
                                relax(&mut lower, aspect, level);
                                let above = Level::new(level.number() + 1).unwrap();
                                relax(&mut a_step_less, aspect, above);
                            }
                            Miss::TooDear { cost_ns, .. } => {
                                lower.max_cost_ns = Some(cost_ns);
                                a_step_less.max_cost_ns = Some(cost_ns - 0.5);
                            }
                            Miss::NoPrice => {
                                lower.max_cost_ns = None;
                                a_step_less.max_cost_ns = policy.max_cost_ns;
                            }
                        }
                    }
                    prop_assert!(choose(&lower, &levels, &first, &second).is_ok());
                    if relaxed.misses.len() == 1 {
                        prop_assert!(choose(&a_step_less, &levels, &first, &second).is_err());
                    }
                }
                prop_assert!(!unmet.what().is_empty());
            }
        }
    }

    #[test]
    fn the_floor_holds_under_every_policy_and_in_every_list(
        policy in policy(), mut first in side("suite"), mut second in side("group"), given in 0..4,
    ) {
        first.is_given = given & 1 == 1;
        second.is_given = given & 2 == 2;
        let chosen = choose(&policy, &Levels::shipped(), &first, &second);
        let (taken, fallen) = match chosen {
            Ok(choice) => ([choice.first, choice.second], choice.fallen),
            Err(unmet) => ([Vec::new(), Vec::new()], unmet.fallen),
        };
        for (side, taken) in [&first, &second].into_iter().zip(taken) {
            for member in &side.members {
                let is_broken = member.parts.iter().any(|part| !PARTS[..SOUND].contains(part));
                let is_told = fallen.iter().any(|fallen| {
                    fallen.what == side.what
                        && fallen.name == member.name
                        && matches!(fallen.reasons[..], [Reason::BelowTheFloor(_)])
                });
                prop_assert_eq!(is_broken, is_told);
                prop_assert!(!(is_broken && taken.contains(&member.name)));
            }
        }
    }
}

fn relax(policy: &mut Policy, aspect: Aspect, level: Level) {
    let least = match aspect {
        Aspect::Confidentiality => &mut policy.min_confidentiality,
        Aspect::Authentication => &mut policy.min_authentication,
        Aspect::ForwardSecrecy => &mut policy.min_forward_secrecy,
    };
    *least = Some(level);
}

#[test]
fn a_list_that_the_operator_wrote_is_left_as_it_is() {
    let member = |name: &str, part: &'static str, cost: f64| Member {
        name: name.to_owned(),
        parts: vec![part],
        cost_ns: Some(cost),
        fits: 1,
        excluded: None,
    };
    let first = Side {
        what: "suite",
        members: vec![
            member("dear", "AES-128-GCM", 30.0),
            member("weak", "3DES-CBC", 90.0),
            member("broken", "RC4", 1.0),
        ],
        is_given: true,
    };
    let second = Side {
        what: "group",
        members: vec![
            member("p384", "P-384", 50.0),
            member("x25519", "X25519", 5.0),
        ],
        is_given: false,
    };
    let policy = Policy {
        min_confidentiality: Level::new(8),
        max_cost_ns: Some(40.0),
        ..Policy::default()
    };
    let choice = choose(&policy, &Levels::shipped(), &first, &second).unwrap();
    assert_eq!(choice.first, ["dear", "weak"]);
    assert_eq!(choice.second, ["x25519"]);
    let told: Vec<String> = choice.fallen.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].starts_with("broken: RC4 is never chosen"),
        "{told:?}"
    );
}

#[test]
fn a_pair_of_a_list_that_the_operator_wrote_is_told_at_its_own_worth() {
    let member = |name: &str, part: &'static str, cost_ns: Option<f64>| Member {
        name: name.to_owned(),
        parts: vec![part],
        cost_ns,
        fits: 1,
        excluded: None,
    };
    let first = Side {
        what: "suite",
        members: vec![
            member("weak", "3DES-CBC", Some(90.0)),
            member("strong", "AES-256-GCM", Some(30.0)),
            member("unpriced", "AES-128-GCM", None),
        ],
        is_given: true,
    };
    let second = Side {
        what: "group",
        members: vec![member("x25519", "X25519", Some(5.0))],
        is_given: false,
    };
    let policy = Policy {
        min_confidentiality: Level::new(8),
        max_cost_ns: Some(40.0),
        ..Policy::default()
    };
    let levels = Levels::shipped();
    let choice = choose(&policy, &levels, &first, &second).unwrap();
    assert_eq!(choice.first, ["weak", "strong", "unpriced"]);
    let told: Vec<_> = choice
        .pairs
        .iter()
        .map(|pair| (pair.first.as_str(), pair.cost_ns))
        .collect();
    assert_eq!(
        told,
        [
            ("weak", Some(95.0)),
            ("strong", Some(35.0)),
            ("unpriced", None)
        ]
    );
    for (pair, member) in choice.pairs.iter().zip(&first.members) {
        let (worth, _) = worth(member, &second.members[0]).unwrap();
        assert_eq!(pair.protection, worth, "{}", pair.first);
    }
    assert!(choice.pairs[0].protection.confidentiality < Level::new(8));
}
