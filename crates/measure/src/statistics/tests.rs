use super::*;

fn near(a: f64, b: f64, within: f64) {
    assert!((a - b).abs() <= within, "{a} is not {b} within {within}");
}

#[test]
fn the_interval_of_a_known_sample() {
    // 4.8 and 5.2 around 5: t(1) = 12.706, s = 0.2828, half = 12.706 * 0.2828 / sqrt(2) = 2.5412.
    let (mean, low, high) = interval_95(&[4.8, 5.2]);
    near(mean, 5.0, 1e-9);
    near(low, 5.0 - 2.5412, 1e-3);
    near(high, 5.0 + 2.5412, 1e-3);
    assert_eq!(interval_95(&[7.0]), (7.0, 7.0, 7.0));
    assert_eq!(interval_95(&[]), (0.0, 0.0, 0.0));
}

#[test]
fn the_interval_of_a_median_is_between_ranks_and_becomes_narrower() {
    let ranks = |count: u32| {
        let values: Vec<f64> = (1..=count).map(f64::from).collect();
        median_interval_95(&values)
    };
    // As published tables of the sign test have them.
    for (count, low, high) in [
        (2, 1.0, 2.0),
        (5, 1.0, 5.0),
        (8, 1.0, 8.0),
        (9, 2.0, 8.0),
        (12, 3.0, 10.0),
        (20, 6.0, 15.0),
        (101, 41.0, 61.0),
    ] {
        assert_eq!(ranks(count), Some((low, high)), "{count}");
    }
    assert_eq!((ranks(0), ranks(1)), (None, None));
    let mut random = Random::new(7);
    for count in [9, 20, 101] {
        let held = (0..2_000).filter(|_| {
            let mut values: Vec<f64> = (0..count).map(|_| random.normal()).collect();
            values.sort_by(f64::total_cmp);
            let (low, high) = median_interval_95(&values).unwrap();
            low <= 0.0 && high >= 0.0
        });
        let held = held.count();
        assert!(held > 1_870, "{count}: {held} of 2000");
    }
}

#[test]
fn student_t_falls_towards_the_normal_distribution() {
    for (degrees, t) in [
        (1, 12.706),
        (4, 2.776),
        (30, 2.042),
        (40, 2.021),
        (60, 2.000),
        (120, 1.980),
    ] {
        near(student_t_95(degrees), t, 0.001);
    }
    assert!(student_t_95(0).is_infinite());
    near(student_t_95(1_000_000), 1.960, 0.001);
}

#[test]
fn student_t_of_99_percent() {
    for (degrees, t) in [(8, 3.355), (14, 2.977), (30, 2.750), (120, 2.617)] {
        near(student_t_99(degrees), t, 0.03);
    }
    assert!(student_t_99(0).is_infinite());
}

#[test]
fn wilson_is_the_published_value() {
    // 10 of 100, two-sided 95%: 0.0552 to 0.1744.
    near(wilson_low(10, 100, 1.96), 0.0552, 0.0001);
    assert_eq!(wilson_low(0, 100, 1.96), 0.0);
    assert_eq!(wilson_low(0, 0, 1.96), 0.0);
    near(wilson_low(100, 100, 1.96), 0.9630, 0.0001);
}

#[test]
fn the_normal_distribution_is_the_published_table() {
    for (z, p) in [
        (0.0, 1.0),
        (1.0, 0.3173),
        (1.96, 0.0500),
        (2.576, 0.0100),
        (-1.96, 0.0500),
    ] {
        near(normal_two_sided(z), p, 0.0001);
    }
}

#[test]
fn mann_whitney_tells_apart_and_not() {
    let a: Vec<f64> = (0..10).map(f64::from).collect();
    let b: Vec<f64> = (20..30).map(f64::from).collect();
    // U = 0, n = 10 and 10: z = (50 - 0.5) / sqrt(175) = 3.742.
    near(mann_whitney(&a, &b), 0.00018, 0.00001);
    near(mann_whitney(&a, &a), 1.0, 1e-6);
    assert_eq!(mann_whitney(&[3.0; 8], &[3.0; 8]), 1.0, "all ties");
    assert_eq!(mann_whitney(&[], &a), 1.0);
    assert_eq!(mann_whitney(&a, &b), mann_whitney(&b, &a));
}

#[test]
fn superiority_is_a_half_where_neither_tends_to_be_larger() {
    let a = [1.0, 2.0, 3.0, 4.0];
    let b = [2.0, 3.0];
    // Of eight pairs 3 > 2, 4 > 2, 4 > 3 are larger, and 2 = 2, 3 = 3 equal.
    near(superiority(&a, &b), 0.5, 1e-12);
    near(superiority(&[5.0, 6.0], &b), 1.0, 1e-12);
    near(superiority(&[2.0, 1.0], &[2.0]), 0.25, 1e-12);
    assert_eq!(superiority(&[], &a), 0.5);
}

#[test]
fn kolmogorovs_limit_is_the_published_table() {
    // Smirnov 1948, of the probability to stay below.
    for (x, below) in [
        (0.28, 0.000001),
        (0.50, 0.036055),
        (0.83, 0.503808),
        (1.00, 0.730000),
        (1.36, 0.950514),
        (1.50, 0.977782),
        (1.63, 0.990154),
        (2.00, 0.999329),
    ] {
        near(1.0 - kolmogorov(x), below, 6e-6);
    }
    assert_eq!(kolmogorov(0.0), 1.0);
    near(kolmogorov(3.0), 3.05e-8, 1e-10);
}

#[test]
fn kolmogorov_and_smirnov_tell_apart_what_mann_and_whitney_do_not() {
    let a: Vec<f64> = (1..=10).map(f64::from).collect();
    let b: Vec<f64> = (6..=15).map(f64::from).collect();
    // D = 0.5, sqrt(100 / 20) * 0.5 = 1.118.
    let (distance, p) = kolmogorov_smirnov(&a, &b);
    near(distance, 0.5, 1e-12);
    near(p, 0.1641, 0.0001);
    assert_eq!(kolmogorov_smirnov(&a, &b), kolmogorov_smirnov(&b, &a));
    assert_eq!(kolmogorov_smirnov(&a, &a), (0.0, 1.0));
    assert_eq!(kolmogorov_smirnov(&[3.0; 8], &[3.0; 9]), (0.0, 1.0));
    assert_eq!(kolmogorov_smirnov(&[], &a), (0.0, 1.0));
    // The same middle, and one is three times as wide.
    let narrow: Vec<f64> = (-300..=300).map(f64::from).collect();
    let wide: Vec<f64> = narrow.iter().map(|v| v * 3.0 + 0.5).collect();
    assert!(mann_whitney(&narrow, &wide) > 0.5);
    assert!(kolmogorov_smirnov(&narrow, &wide).1 < 1e-9);
}

#[test]
fn quantiles_of_resamples_are_repeatable_and_as_wide_as_theory_says() {
    let mut random = Random::new(3);
    let mut values: Vec<f64> = (0..2_000).map(|_| random.normal()).collect();
    values.sort_by(f64::total_cmp);
    let shares = [0.5, 0.9];
    let draw = || bootstrap_quantiles(&values, &shares, 1_000, &mut Random::new(1));
    let drawn = draw();
    assert_eq!(drawn, draw());
    for (nth, share, theory) in [(0, 0.5, 0.0280), (1, 0.9, 0.0382)] {
        let of: Vec<f64> = drawn.iter().map(|quantiles| quantiles[nth]).collect();
        near(mean(&of), quantile(&values, share), 0.02);
        // sqrt(p (1 - p) / n) over the density there.
        near(deviation(&of), theory, 0.008);
    }
    assert_eq!(
        bootstrap_quantiles(&[7.0], &[0.99], 2, &mut random),
        [[7.0], [7.0]]
    );
    assert_eq!(bootstrap_quantiles(&[], &[0.5], 1, &mut random), [[0.0]]);
}

#[test]
fn blocks_take_in_the_rest() {
    assert_eq!(block_means(&[1.0, 3.0, 5.0, 7.0, 9.0], 2), [2.0, 7.0]);
    assert_eq!(block_means(&[1.0, 3.0], 5), [2.0]);
    assert!(block_means(&[], 5).is_empty());
}

#[test]
fn the_bootstrap_is_repeatable_and_as_wide_as_theory_says() {
    let mut random = Random::new(5);
    let values: Vec<f64> = (0..400).map(|_| 10.0 + random.normal()).collect();
    let mut means = bootstrap_means(&values, 7, 2_000, &mut Random::new(1));
    assert_eq!(
        means,
        bootstrap_means(&values, 7, 2_000, &mut Random::new(1))
    );
    near(mean(&means), mean(&values), 0.01);
    // Deviation of a mean of 400: 1/20.
    near(deviation(&means), 0.05, 0.01);
    means.sort_by(f64::total_cmp);
    near(
        quantile(&means, 0.975) - quantile(&means, 0.025),
        2.0 * 1.96 * 0.05,
        0.04,
    );
    assert!(bootstrap_means(&[], 3, 10, &mut random).is_empty());
}

#[test]
fn dependent_values_have_wider_blocks() {
    let mut random = Random::new(9);
    let mut level = 0.0;
    let values: Vec<f64> = (0..400)
        .map(|_| {
            level = 0.9 * level + random.normal();
            level
        })
        .collect();
    let alone = deviation(&bootstrap_means(&values, 1, 2_000, &mut Random::new(1)));
    let blocks = deviation(&bootstrap_means(&values, 20, 2_000, &mut Random::new(1)));
    assert!(blocks > 1.8 * alone, "{blocks} and {alone}");
}
