//! Pages from templates.

use std::fmt;

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value};
use serde::Serialize;

use crate::{chart, number};

/// Templates that extend `base.html` and fill its blocks `title` and `body`.
///
/// All that a template is given is escaped, but for what it marks as `safe`: charts. Its
/// filters are the functions of [`number`]: `figure`, `count`, `percent`, `bytes`,
/// `microseconds`, `seconds`, `utc`. In a table of class `rows` each cell with a `data-name`
/// stands on a line of its own where the page is narrow; others go into a `<div class="wide">`.
pub struct Pages {
    environment: Environment<'static>,
}

/// A template that is wrong.
#[derive(Debug)]
pub struct PageError(minijinja::Error);

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the page's template: {:#}", self.0)
    }
}

impl std::error::Error for PageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl Pages {
    /// With these templates, by name.
    ///
    /// # Errors
    /// Where one does not follow the syntax of templates.
    pub fn new(templates: &[(&'static str, &'static str)]) -> Result<Self, PageError> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.add_filter("figure", number::figure);
        environment.add_filter("count", number::count);
        environment.add_filter("percent", number::percent);
        environment.add_filter("bytes", number::bytes);
        environment.add_filter("microseconds", number::microseconds);
        environment.add_filter("seconds", number::seconds);
        environment.add_filter("utc", number::utc);
        let own = [
            ("base.html", include_str!("base.html")),
            ("page.css", include_str!("page.css")),
            ("chart.css", chart::STYLE),
        ];
        for &(name, text) in own.iter().chain(templates) {
            environment.add_template(name, text).map_err(PageError)?;
        }
        Ok(Self { environment })
    }

    /// Fills a template in.
    ///
    /// # Errors
    /// Where it asks for something that it was not given.
    pub fn render(&self, name: &str, values: impl Serialize) -> Result<String, PageError> {
        let template = self.environment.get_template(name).map_err(PageError)?;
        template
            .render(Value::from(Serde(values)))
            .map_err(PageError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(template: &'static str, values: &serde_json::Value) -> String {
        let pages = Pages::new(&[("it.html", template)]).unwrap();
        pages.render("it.html", values).unwrap()
    }

    #[test]
    fn a_page_is_whole_and_needs_nothing() {
        let page = page(
            "{% extends \"base.html\" %}{% block title %}{{ name }}{% endblock %}\
             {% block body %}<p>{{ name }} {{ 12345.6|figure }} {{ 7|count }} {{ at|utc }}</p>{% endblock %}",
            &serde_json::json!({"name": "<i>&\"x\"</i>", "at": 0}),
        );
        assert!(page.contains("<title>&lt;i&gt;"), "{page}");
        assert!(!page.contains("<i>"), "{page}");
        assert!(page.contains("12,346 7 1970-01-01 00:00 UTC"), "{page}");
        assert!(page.contains(".chart .grid") && page.contains("table.rows"));
        for outside in ["http:", "https:", "src=", "<script", "@import", "url("] {
            assert!(!page.contains(outside), "the page needs {outside}");
        }
        let options = roxmltree::ParsingOptions {
            allow_dtd: true,
            ..roxmltree::ParsingOptions::default()
        };
        roxmltree::Document::parse_with_options(&page, options).unwrap();
    }

    #[test]
    fn a_wrong_template_says_where() {
        let Err(error) = Pages::new(&[("wrong.html", "{% if %}")]) else {
            panic!("it was taken");
        };
        assert!(error.to_string().contains("wrong.html"), "{error}");
    }
}
