//! Registrations that wait for the store.

use super::*;

#[test]
fn the_200_waits_for_the_store() {
    let mut registers = Registers::durable();
    assert!(registers.give(&ask(1, CONTACT)).is_none());
    assert!(registers.out.outbox.sends.is_empty() && registers.out.outbox.bytes.is_empty());
    assert!(
        registers.bound().is_empty(),
        "not visible before it is durable"
    );
    let (park, changes) = registers.save();
    assert!(
        matches!(&changes[..], [BindingChange::Put { aor, .. }] if &**aor == b"sip:alice@example.org")
    );
    assert_eq!(registers.registrar.waiting(), 1);
    assert_eq!(registers.saved(park, Ok(())), [200]);
    assert_eq!(registers.bound().len(), 1);
    assert_eq!(
        (
            registers.registrar.waiting(),
            registers.registrar.next_deadline_ms()
        ),
        (0, None)
    );
    // A second word on it finds nobody.
    assert_eq!(registers.saved(park, Err(())), [0; 0]);
    assert_eq!(registers.bound().len(), 1);
}

#[test]
fn a_failed_save_is_500_and_changes_nothing() {
    // RFC 3261 10.3: "If any one of them fails (for example, because the back-end database commit failed),
    // the request MUST fail with a 500 (Server Error) response and all tentative binding updates MUST be
    // removed."
    let mut registers = Registers::durable();
    registers.give(&ask(1, CONTACT));
    let (park, _) = registers.save();
    let cx = context(&registers.world);
    registers.registrar.handle_saved(&cx, park, Err(()));
    let answered = registers.registrar.poll(&cx, &mut registers.out).unwrap();
    let response = parse(&registers.out.outbox.bytes[answered.start..]);
    assert_eq!(
        (
            response.status(),
            header(&response, "Retry-After").as_deref()
        ),
        (500, Some("5"))
    );
    // RFC 3261 10.3: "The binding updates MUST be committed (that is, made visible to the proxy or
    // redirect server) if and only if all binding updates and additions succeed."
    assert!(registers.bound().is_empty());
    assert_eq!(registers.registrar.counters().save_failed, 1);
}

#[test]
fn questions_and_refusals_do_not_bother_the_store() {
    let mut registers = Registers::durable();
    assert_eq!(registers.status(&ask(1, "")), 200);
    assert_eq!(registers.status(&ask(1, "Contact: *\r\n")), 400);
    assert_eq!(
        registers.status(&ask(1, "Contact: <sip:a@h>;expires=0\r\n")),
        200
    );
    assert!(registers.out.effects.is_empty());
}

#[test]
fn later_ones_wait_their_turn() {
    // RFC 3261 10.3: "REGISTER requests MUST be processed by a registrar in the order that they are
    // received."
    let mut registers = Registers::durable();
    registers.give(&ask(1, "Contact: <sip:a@h1>\r\n"));
    let (first, _) = registers.save();
    for cseq in [2, 3] {
        assert!(
            registers
                .give(&ask(cseq, &format!("Contact: <sip:a@h{cseq}>\r\n")))
                .is_none()
        );
        assert!(registers.out.effects.is_empty());
    }
    // A question waits as well: its answer depends on what is before it.
    assert!(registers.give(&ask(4, "")).is_none());
    // One of the line is refused, when its turn comes.
    assert!(registers.give(&ask(1, "Contact: <sip:a@h1>\r\n")).is_none());
    assert_eq!(registers.registrar.waiting(), 5);
    // Another user does not wait behind alice.
    registers.give(&Ask {
        to: "<sip:bob@example.org>",
        ..ask(1, CONTACT)
    });
    let (bob, _) = registers.save();
    assert_eq!(registers.saved(first, Ok(())), [200]);
    let (second, changes) = registers.save();
    assert_eq!(changes.len(), 1);
    assert_eq!(registers.saved(bob, Ok(())), [200]);
    assert_eq!(registers.saved(second, Ok(())), [200]);
    let (third, _) = registers.save();
    assert_eq!(registers.saved(third, Ok(())), [200, 200, 500]);
    assert_eq!(registers.bound().len(), 3);
    assert_eq!(registers.registrar.waiting(), 0);
}

#[test]
fn the_line_is_bounded() {
    let mut registers = Registers::durable();
    registers.give(&ask(1, CONTACT));
    let (park, _) = registers.save();
    for n in 0..LINE_MAX as u32 {
        assert!(registers.give(&ask(2 + n, CONTACT)).is_none());
    }
    let response = registers.give(&ask(100, CONTACT)).unwrap();
    assert_eq!(
        (
            response.status(),
            header(&response, "Retry-After").as_deref()
        ),
        (503, Some("5"))
    );
    assert_eq!(registers.registrar.counters().queue_full, 1);
    assert_eq!(registers.saved(park, Ok(())), [200]);
    for _ in 0..LINE_MAX {
        let (park, _) = registers.save();
        assert_eq!(registers.saved(park, Ok(())), [200]);
    }
    assert_eq!(registers.registrar.waiting(), 0);
    assert_eq!(registers.bound()[0].cseq, 1 + LINE_MAX as u32);
}

#[test]
fn the_number_of_lines_is_bounded() {
    let mut registers = Registers::durable();
    let text = String::from_utf8(ask(1, CONTACT).message().bytes().to_vec()).unwrap();
    let mut give = |n: usize| {
        let request = Box::new(parse(
            text.replace("alice@example", &format!("u{n}@example"))
                .as_bytes(),
        ));
        let Gate::Pass(permit) = registers.world.judge(&registers.flow, &request) else {
            panic!()
        };
        let cx = context(&registers.world);
        let registration = Registration {
            request,
            sender: Sender::unproved(registers.flow),
            server: None,
            permit,
        };
        registers
            .registrar
            .handle_register(&cx, registration, &mut registers.out)
            .map(|answered| answered.line.status())
    };
    for n in 0..SAVES_MAX {
        assert_eq!(give(n), None);
    }
    assert_eq!(give(SAVES_MAX), Some(503));
}

#[test]
fn a_save_that_takes_too_long_is_500_and_counts_when_it_comes() {
    let mut registers = Registers::durable();
    registers.give(&ask(1, CONTACT));
    let (park, _) = registers.save();
    registers.world.now.mono_ms += 1_000;
    registers.give(&ask(2, "Contact: <sip:a@second>\r\n"));
    registers.world.now.mono_ms -= 1_000;
    assert_eq!(registers.wait(3_990), [0; 0]);
    assert_eq!(registers.wait(10), [500]);
    assert_eq!(registers.registrar.waiting(), 1);
    assert_eq!(
        registers.wait(1_000),
        [500],
        "what waits behind it waits no longer"
    );
    assert_eq!(
        (
            registers.registrar.waiting(),
            registers.registrar.counters().save_timeout
        ),
        (0, 2)
    );
    // The store is still at it, so the next one stays behind it.
    assert!(
        registers
            .give(&ask(3, "Contact: <sip:a@third>\r\n"))
            .is_none()
    );
    assert_eq!(registers.saved(park, Ok(())), [0; 0]);
    assert_eq!(registers.bound()[0].cseq, 1, "memory and store agree");
    let (park, _) = registers.save();
    assert_eq!(registers.saved(park, Ok(())), [200]);
    assert_eq!(registers.bound().len(), 2);
}

#[test]
fn what_the_store_has_done_counts_however_late_it_says_so() {
    for answer in [Ok(()), Err(())] {
        let mut registers = Registers::durable();
        registers.give(&ask(1, CONTACT));
        let (late, _) = registers.save();
        assert_eq!(registers.wait(4_000), [500]);
        // What the store has is not known, so nothing is planned before it has said it.
        for cseq in 2..20 {
            assert!(registers.give(&ask(cseq, CONTACT)).is_none());
            assert!(registers.out.effects.is_empty());
            assert_eq!(registers.wait(4_000), [500]);
        }
        let registrar = &registers.registrar;
        assert_eq!(
            (registrar.waiting(), registrar.next_deadline_ms()),
            (0, None)
        );
        assert_eq!(registers.saved(late, answer), [0; 0]);
        let bound = registers.bound();
        let cseqs: Vec<u32> = bound.iter().map(|binding| binding.cseq).collect();
        assert_eq!(cseqs, vec![1; usize::from(answer.is_ok())]);
        // From then on all is as ever.
        registers.give(&ask(20, CONTACT));
        let (park, _) = registers.save();
        assert_eq!(registers.saved(park, Ok(())), [200]);
        assert_eq!(registers.registrar.next_deadline_ms(), None);
    }
}

#[test]
fn whose_domain_is_taken_away_while_the_store_is_asked_is_told_so() {
    let mut registers = Registers::durable();
    assert!(registers.give(&ask(1, CONTACT)).is_none());
    let (park, _) = registers.save();
    assert!(registers.give(&ask(2, CONTACT)).is_none(), "it waits");
    registers.world.settings.domains = vec!["example.net".into()];
    registers.world.own = Own::new(&registers.world.settings);
    assert_eq!(registers.saved(park, Ok(())), [404, 404]);
    assert!(registers.out.effects.is_empty(), "nothing more is stored");
    assert_eq!(registers.registrar.waiting(), 0);
}

#[test]
fn contacts_that_make_room_are_counted_when_they_are_gone() {
    let replaced = |registers: &Registers| registers.registrar.counters().contacts_replaced;
    let contact = |cseq: u32| ask(cseq, &format!("Contact: <sip:a@h{cseq}>\r\n"));
    let mut registers = Registers::durable();
    registers.world.settings.registrar.contacts_max = 1;
    for (cseq, count, answer) in [(1, 0, Ok(())), (2, 0, Err(())), (3, 1, Ok(()))] {
        assert!(registers.give(&contact(cseq)).is_none());
        let (park, _) = registers.save();
        registers.saved(park, answer);
        assert_eq!(replaced(&registers), count, "{cseq}");
        assert_eq!(registers.bound().len(), 1);
    }
    let mut registers = Registers::new();
    registers.world.settings.registrar.contacts_max = 1;
    for (cseq, count) in [(1, 0), (2, 1), (3, 2)] {
        registers.ok(&contact(cseq));
        assert_eq!(replaced(&registers), count, "{cseq}");
    }
}
