//! Priorities and weights (RFC 2782).

/// What a server's place in the order depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// The lower is tried first.
    pub priority: u16,
    /// The share among those of one priority.
    pub weight: u16,
}

/// Puts servers into the order in which to try them: by priority, and among those
/// of one priority by lot, each with the chance of its weight. `lot` gives a number
/// from 0 up to and including its argument. Only the first `wanted` are put in order,
/// since each costs a walk over those that are left, and who runs a name chooses how many
/// there are.
pub fn order<T>(
    servers: &mut [T],
    wanted: usize,
    rank: impl Fn(&T) -> Rank,
    lot: &mut (impl FnMut(u32) -> u32 + ?Sized),
) {
    // RFC 2782: "arrange all SRV RRs (that have not been ordered yet) in any order, except
    // that all those with weight 0 are placed at the beginning of the list." The order of
    // those that are left stays as it is when one is drawn.
    servers.sort_by_key(&rank);
    let wanted = wanted.min(servers.len());
    let mut left = servers;
    for _ in 0..wanted {
        let drawn = draw(left, &rank, lot);
        if let Some(passed) = left.get_mut(..=drawn) {
            passed.rotate_right(1);
        }
        left = left.get_mut(1..).unwrap_or_default();
    }
}

/// Which one comes first of those that are left.
fn draw<T>(
    left: &[T],
    rank: impl Fn(&T) -> Rank,
    lot: &mut (impl FnMut(u32) -> u32 + ?Sized),
) -> usize {
    let Some(priority) = left.first().map(|first| rank(first).priority) else {
        return 0;
    };
    // RFC 2782: "Compute the sum of the weights of those RRs, and with each RR associate
    // the running sum in the selected order.  Then choose a uniform random number between
    // 0 and the sum computed (inclusive), and select the RR whose running sum value is the
    // first in the selected order which is greater than or equal to the random number
    // selected."
    let sums = || {
        left.iter()
            .map(&rank)
            .take_while(|rank| rank.priority == priority)
            .scan(0_u32, |sum, rank| {
                *sum = sum.saturating_add(u32::from(rank.weight));
                Some(*sum)
            })
    };
    let sum = sums().last().unwrap_or(0);
    let lot = lot(sum).min(sum);
    sums().position(|running| running >= lot).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn server(name: &'static str, priority: u16, weight: u16) -> (&'static str, Rank) {
        (name, Rank { priority, weight })
    }

    /// The names in order, by these lots.
    fn ordered(servers: &[(&'static str, Rank)], lots: &[u32]) -> Vec<&'static str> {
        let mut servers = servers.to_vec();
        let mut lots = lots.iter();
        order(&mut servers, usize::MAX, |(_, rank)| *rank, &mut |most| {
            (*lots.next().unwrap()).min(most)
        });
        assert_eq!(lots.next(), None, "a lot for each server");
        servers.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn priorities_come_first_and_lots_among_equals() {
        let servers = [
            server("backup", 20, 100),
            server("often", 10, 3),
            server("seldom", 10, 1),
            server("hardly", 10, 0),
        ];
        // The running sums are 0, 1 and 4.
        let most = u32::MAX;
        for (lot, first) in [
            (0, "hardly"),
            (1, "seldom"),
            (2, "often"),
            (3, "often"),
            (4, "often"),
            (most, "often"),
        ] {
            let order = ordered(&servers, &[lot, 0, 0, 0]);
            assert_eq!((order[0], order[3]), (first, "backup"), "{lot}");
        }
        // Those that are left keep their order, so that 0 means the weight of 0 again.
        assert_eq!(
            ordered(&servers, &[4, 0, 0, 0]),
            ["often", "hardly", "seldom", "backup"]
        );
    }

    #[test]
    fn each_comes_first_by_its_share() {
        let servers = [server("a", 0, 10), server("b", 0, 30), server("c", 0, 60)];
        let mut firsts = [0; 3];
        for lot in 1..=100 {
            let first = ordered(&servers, &[lot, 0, 0])[0];
            firsts[usize::from(first.as_bytes()[0] - b'a')] += 1;
        }
        assert_eq!(firsts, [10, 30, 60]);
    }

    #[test]
    fn without_weights_they_stay_as_they_were() {
        let servers = [server("z", 1, 0), server("a", 1, 0), server("m", 1, 0)];
        assert_eq!(ordered(&servers, &[9, 9, 9]), ["z", "a", "m"]);
        assert_eq!(ordered(&[], &[]), [""; 0]);
    }

    #[test]
    fn no_more_lots_are_drawn_than_servers_are_wanted() {
        let mut servers = vec![server("same", 0, 1); 50_000];
        let mut drawn = 0;
        order(&mut servers, 3, |(_, rank)| *rank, &mut |most| {
            drawn += 1;
            most
        });
        assert_eq!((drawn, servers.len()), (3, 50_000));
    }

    #[test]
    fn the_greatest_weights_do_not_overflow() {
        let servers = vec![
            (
                (),
                Rank {
                    priority: 0,
                    weight: u16::MAX
                }
            );
            70_000
        ];
        assert_eq!(draw(&servers, |(_, rank)| *rank, &mut |most| most), 65_536);
    }
}
