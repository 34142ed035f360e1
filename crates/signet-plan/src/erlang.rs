//! Erlang's formula B: how many lines a number of calls needs.

/// Traffic beyond this takes too long to reckon line by line, and hardly differs from itself
/// there: it is given a line for each erlang.
const ERLANGS_MAX: f64 = 5e6;

/// The fewest lines with which no more than this share of calls finds none free, for traffic
/// of so many erlangs (calls a second times the seconds that one lasts).
pub fn lines(erlangs: f64, blocking_max: f64) -> u64 {
    if erlangs.is_nan() || erlangs <= 0.0 {
        return 0;
    }
    if erlangs > ERLANGS_MAX {
        return erlangs.ceil() as u64;
    }
    // B(0) = 1; B(n) = A B(n-1) / (n + A B(n-1)). It falls below any bound above 0.
    let (mut blocking, mut lines) = (1.0, 0_u64);
    let most = (2.0 * erlangs) as u64 + 1_000;
    while blocking > blocking_max && lines < most {
        lines += 1;
        let offered = erlangs * blocking;
        blocking = offered / (lines as f64 + offered);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_printed_tables() {
        // Erlang B, the least lines: 1 erlang at 1 %, 10 at 1 %, 100 at 0.1 %.
        assert_eq!(lines(1.0, 0.01), 5);
        assert_eq!(lines(10.0, 0.01), 18);
        assert_eq!(lines(100.0, 0.001), 128);
        assert_eq!(lines(0.0, 0.01), 0);
        assert_eq!(lines(f64::NAN, 0.01), 0);
    }

    #[test]
    fn more_calls_never_need_fewer_lines() {
        let mut before = 0;
        for tenth in 1..3_000 {
            let now = lines(f64::from(tenth) / 10.0, 0.001);
            assert!(now >= before, "{tenth}");
            before = now;
        }
        assert!(lines(1e6, 0.001) >= 1_000_000 - 5_000);
        assert!(lines(1e9, 0.001) == 1_000_000_000);
    }
}
