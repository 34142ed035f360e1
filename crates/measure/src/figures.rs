//! What a server says of itself, in the text format of Prometheus.

/// A page of figures.
#[derive(Clone, Debug, Default)]
pub struct Figures(String);

impl Figures {
    /// A page as it was read.
    pub fn new(page: String) -> Self {
        Self(page)
    }

    /// The sum of a family over all its labels; 0 of one that is not there.
    pub fn sum(&self, name: &str) -> f64 {
        self.samples(name).map(|(_, value)| value).sum()
    }

    /// Each value of a family by what a label says, in the order of the page.
    pub fn by<'f>(&'f self, name: &'f str, label: &'f str) -> impl Iterator<Item = (&'f str, f64)> {
        self.samples(name)
            .filter_map(move |(labels, value)| Some((value_of(labels, label)?, value)))
    }

    /// The labels of each sample of a family, and its value.
    fn samples<'f>(&'f self, name: &'f str) -> impl Iterator<Item = (&'f str, f64)> {
        self.0.lines().filter_map(move |line| {
            let rest = line.strip_prefix(name)?;
            let is_it = rest.starts_with('{') || rest.starts_with(' ');
            let (labels, value) = rest.rsplit_once(' ').filter(|_| is_it)?;
            Some((labels, value.parse().ok()?))
        })
    }
}

/// What a label says in `{label="value",other="value"}`; values here have no quotes in them.
fn value_of<'f>(labels: &'f str, label: &str) -> Option<&'f str> {
    let inner = labels.trim_start_matches('{').trim_end_matches('}');
    inner.split("\",").find_map(|pair| {
        let (name, value) = pair.split_once("=\"")?;
        (name == label).then(|| value.trim_end_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_added_and_longer_names_are_others() {
        let page =
            "# HELP a b\na{transport=\"udp\"} 5\na{transport=\"tcp\"} 7.5\na_total 100\na 1\n";
        let figures = Figures::new(page.to_owned());
        assert_eq!(figures.sum("a"), 13.5);
        assert_eq!(figures.sum("a_total"), 100.0);
        assert_eq!(figures.sum("b"), 0.0);
    }

    #[test]
    fn values_are_told_apart_by_a_label() {
        let page =
            "a{of=\"x\",by=\"one\"} 5\na{of=\"x, y\",by=\"two\"} 7.5\na 1\nab{by=\"one\"} 9\n";
        let figures = Figures::new(page.to_owned());
        let by = |label| figures.by("a", label).collect::<Vec<_>>();
        assert_eq!(by("by"), [("one", 5.0), ("two", 7.5)]);
        assert_eq!(by("of"), [("x", 5.0), ("x, y", 7.5)]);
        assert_eq!(by("b"), []);
    }
}
