//! What is not held by a cache takes the way of what does not match it, and a refusal is told
//! when the longest look-up of late would have ended.

use super::*;

#[test]
fn what_a_cache_does_not_have_takes_the_way_of_what_does_not_match() {
    for transport in TRANSPORTS {
        for (password, status) in [("new", 200), ("wrong", 401)] {
            let mut bed = plain();
            let text = sign(&mut bed, &phone(transport), "REGISTER", password);
            bed.receive(&phone(transport), &text);
            let first = asked(&mut bed);
            let sent = answer(&mut bed, first.park, Ok(Reply::NotCached));
            assert!(sent.is_empty(), "nobody is answered by a cache");
            let second = asked(&mut bed);
            assert_eq!(second.question.why, Why::DigestUncached);
            assert_eq!(second.question.subject, first.question.subject);
            assert_eq!(second.until_ms, first.until_ms, "no longer for that");
            let new = Reply::Secret(secret(&second.question, "new"));
            let mut sent = answer(&mut bed, second.park, Ok(new));
            if let Some(Effect::SaveBindings { park, .. }) = bed.effects.pop() {
                sent = bed.act(|shard, now, out| shard.handle_saved(now, park, Ok(()), out));
            }
            assert_eq!(only(sent).status(), status, "{password}");
        }
    }
}

#[test]
fn what_a_cache_does_not_have_is_no_guess() {
    let mut bed = plain();
    for _ in 0..40 {
        let text = sign(&mut bed, &phone(Transport::Udp), "MESSAGE", "new");
        bed.receive(&phone(Transport::Udp), &text);
        let first = asked(&mut bed);
        answer(&mut bed, first.park, Ok(Reply::NotCached));
        let second = asked(&mut bed);
        answer(&mut bed, second.park, Err(NO_ANSWER));
        bed.wait(50);
    }
    // While the store is away nobody is the worse for not having been held: once he is, he is
    // let in.
    assert!(is_let_in_by_cache(&mut bed, &phone(Transport::Udp), "MESSAGE", "new").0);
}

/// How long after its look-up began a wrong password is refused, where that takes so long. Each
/// is tried from another address.
fn refused_after_ms(bed: &mut Bed, nth: u32, took_ms: u64, reply: &Reply) -> u64 {
    // Timers go by tens of milliseconds.
    bed.wait(10 - bed.now.mono_ms % 10);
    let guesser = flow(Transport::Udp, &format!("198.51.100.{nth}:40001"));
    let text = sign(bed, &guesser, "REGISTER", "wrong");
    bed.receive(&guesser, &text);
    let Asked { park, .. } = asked(bed);
    let begun_ms = bed.now.mono_ms;
    assert!(bed.wait(took_ms).is_empty());
    let mut sent = answer(bed, park, Ok(reply.clone()));
    while sent.is_empty() {
        assert!(bed.now.mono_ms < begun_ms + 1_000, "he is never answered");
        sent = bed.wait(1);
    }
    assert_eq!(only(sent).status(), 401);
    bed.effects.clear();
    bed.now.mono_ms - begun_ms
}

#[test]
fn refusals_do_not_show_how_long_their_look_ups_took() {
    let evens = AuthSettings {
        evens_refusals: true,
        ..AuthSettings::default()
    };
    let another = Ha1::compute(
        sip_auth::Algorithm::Md5,
        b"alice",
        b"example.org",
        b"another",
    );
    let known = Reply::Secret(another);
    let mut bed = server(evens, AuthConfig::default());
    for (nth, (took_ms, reply)) in [
        (38, &known),
        (21, &Reply::Unknown),
        (33, &known),
        (22, &Reply::Verified(false)),
        (37, &Reply::Unknown),
    ]
    .into_iter()
    .enumerate()
    {
        let nth = u32::try_from(nth).unwrap();
        assert_eq!(refused_after_ms(&mut bed, nth, took_ms, reply), 40);
    }
    // Who is right waits for nothing.
    let text = sign(&mut bed, &phone(Transport::Udp), "MESSAGE", "new");
    bed.receive(&phone(Transport::Udp), &text);
    let Asked { park, question, .. } = asked(&mut bed);
    let reply = Reply::Secret(secret(&question, "new"));
    answer(&mut bed, park, Ok(reply));
    assert_eq!(asked(&mut bed).question.subject.user(), b"bob");
    // Where it is not wanted, as for a store that is here, each is told at once.
    let mut bed = plain();
    for (nth, took_ms) in [(1, 38), (2, 21)] {
        assert_eq!(
            refused_after_ms(&mut bed, nth, took_ms, &Reply::Unknown),
            took_ms
        );
    }
}
