use std::cell::Cell;

use proptest::prelude::*;

use super::*;

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
    static READS: Cell<u64> = const { Cell::new(0) };
}

fn clock_ns() -> u64 {
    READS.set(READS.get() + 1);
    NOW_NS.get()
}

fn pass(us: u64) {
    NOW_NS.set(NOW_NS.get() + 1_000 * us);
}

/// Runs on a thread of its own, whose ledger is new.
fn on_a_thread<R: Send + 'static>(act: impl FnOnce() -> R + Send + 'static) -> R {
    std::thread::spawn(act).join().unwrap()
}

#[test]
fn each_is_in_its_place() {
    for (nth, component) in Component::ALL.into_iter().enumerate() {
        assert_eq!(component as usize, nth);
        let mut times = CpuTimes::default();
        times.add(component, 7);
        assert_eq!((times.us[nth], times.of(component), times.sum()), (7, 7, 7));
    }
}

#[test]
fn a_stay_ends_where_it_began() {
    let cpu = on_a_thread(|| {
        open(clock_ns);
        pass(1);
        {
            let _handshake = enter(Component::TlsHandshakes);
            pass(2);
            within(Component::Kernel, || pass(4));
            pass(8);
            let _other = enter(Component::Store);
            pass(16);
        }
        pass(32);
        settle(63_000)
    });
    assert_eq!(cpu.of(Component::SipCore), 1 + 32);
    assert_eq!(cpu.of(Component::TlsHandshakes), 2 + 8);
    assert_eq!(cpu.of(Component::Kernel), 4);
    assert_eq!(cpu.of(Component::Store), 16);
    assert_eq!(cpu.sum(), 63);
}

#[test]
fn a_panic_leaves_the_place_as_well() {
    let cpu = on_a_thread(|| {
        open(clock_ns);
        let caught = std::panic::catch_unwind(|| {
            let _store = enter(Component::Store);
            pass(3);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(caught.is_err());
        pass(5);
        settle(8_000)
    });
    assert_eq!(
        (cpu.of(Component::Store), cpu.of(Component::SipCore)),
        (3, 5)
    );
}

#[test]
fn where_a_thread_is_already_it_reads_no_clock() {
    let reads = on_a_thread(|| {
        open(clock_ns);
        let begun = READS.get();
        for _ in 0..10 {
            within(Component::SipCore, || pass(1));
        }
        let core = READS.get() - begun;
        within(Component::Kernel, || within(Component::Kernel, || pass(1)));
        (core, READS.get() - begun)
    });
    assert_eq!(reads, (0, 2));
}

#[test]
fn a_thread_without_a_ledger_reads_no_clock_and_counts_nothing() {
    let (reads, cpu) = on_a_thread(|| {
        within(Component::Kernel, || pass(1));
        let reads = READS.get();
        (reads, settle(5_000))
    });
    assert_eq!(reads, 0);
    // What the kernel says of it is still told.
    assert_eq!((cpu.of(Component::Kernel), cpu.sum()), (5, 5));
}

#[test]
fn what_others_had_the_core_for_is_taken_off_in_proportion() {
    let cpu = on_a_thread(|| {
        open(clock_ns);
        pass(600);
        within(Component::Authentication, || pass(300));
        within(Component::Kernel, || pass(100));
        // Another thread had the core for half of that.
        settle(500_000)
    });
    assert_eq!(cpu.of(Component::SipCore), 300);
    assert_eq!(cpu.of(Component::Authentication), 150);
    assert_eq!(cpu.of(Component::Kernel), 50);
}

#[test]
fn waits_are_nobodys_and_what_they_took_of_the_processor_is_the_kernels() {
    let (first, second) = on_a_thread(|| {
        open(clock_ns);
        pass(10);
        {
            let _waits = wait();
            pass(1_000_000);
        }
        let first = settle(14_000);
        {
            let _waits = wait();
            pass(1_000_000);
            // A settlement may fall into a wait.
            settle(15_000);
        }
        (first, settle(15_000))
    });
    assert_eq!(
        (first.of(Component::SipCore), first.of(Component::Kernel)),
        (10, 4)
    );
    assert_eq!(
        (second.of(Component::SipCore), second.of(Component::Kernel)),
        (10, 5)
    );
}

#[test]
fn a_processors_clock_that_says_less_than_before_takes_nothing_back() {
    let cpu = on_a_thread(|| {
        open(clock_ns);
        pass(10);
        settle(10_000);
        pass(10);
        settle(0);
        settle(12_000)
    });
    assert_eq!(cpu.sum(), 12);
}

proptest! {
    /// Whatever a thread does, components sum to what the kernel says, and none gets less.
    #[test]
    fn components_sum_to_the_kernels_figure(
        turns in prop::collection::vec((0..=WAITING, 0_u64..5_000_000, 0_u64..5_000_000), 1..50),
    ) {
        on_a_thread(move || {
            open(clock_ns);
            let (mut kernels_ns, mut before) = (0, CpuTimes::default());
            for (place, passed_ns, ran_ns) in turns {
                let stay = Stay::at(place);
                NOW_NS.set(NOW_NS.get() + passed_ns);
                drop(stay);
                kernels_ns += ran_ns;
                let cpu = settle(kernels_ns);
                // Each component is cut to whole microseconds.
                let short_us = kernels_ns / 1_000 - cpu.sum();
                assert!(short_us <= Component::COUNT as u64, "{short_us}");
                assert!(cpu.us.iter().zip(before.us).all(|(after, before)| *after >= before));
                before = cpu;
            }
        });
    }
}
