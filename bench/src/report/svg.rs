//! The few SVG elements that the charts need.

use std::fmt::Write;

pub(super) const WIDTH: f64 = 760.0;

/// Colours for light and dark backgrounds; the viewer's preference decides.
const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-size:16px;font-weight:600}.soft{fill:#57606a}\
.grid{stroke:#d0d7de;stroke-width:1}.line{fill:none;stroke-width:2.5}\
.c0{stroke:#0550ae;fill:#0550ae}.c1{stroke:#bc4c00;fill:#bc4c00}.c2{stroke:#116329;fill:#116329}\
.c3{stroke:#8250df;fill:#8250df}.c4{stroke:#9a6700;fill:#9a6700}.c5{stroke:#6e7781;fill:#6e7781}\
.line.c5{stroke-dasharray:6 4}text.c0,text.c1,text.c2,text.c3,text.c4,text.c5{stroke:none}\
polyline.line{fill:none}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9da7b3}.grid{stroke:#3d444d}\
.c0{stroke:#6cb6ff;fill:#6cb6ff}.c1{stroke:#f69d50;fill:#f69d50}.c2{stroke:#6bc46d;fill:#6bc46d}\
.c3{stroke:#dcbdfb;fill:#dcbdfb}.c4{stroke:#daaa3f;fill:#daaa3f}.c5{stroke:#909dab;fill:#909dab}\
polyline.line{fill:none}}";

/// A picture under construction.
pub(super) struct Svg {
    body: String,
    height: f64,
    title: String,
}

impl Svg {
    pub(super) fn new(title: &str, height: f64) -> Self {
        let mut svg = Self { body: String::new(), height, title: title.to_owned() };
        svg.text((16.0, 26.0), "title", "start", title);
        svg
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), class: &str, anchor: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        self.push(&format!(
            r#"<text x="{x:.1}" y="{y:.1}" class="{class}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    pub(super) fn grid(&mut self, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.push(&format!(r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="grid"/>"#));
    }

    /// A line with a dot at each measured point.
    pub(super) fn line(&mut self, points: &[(f64, f64)], colour: usize) {
        let path = points.iter().fold(String::new(), |mut path, (x, y)| {
            let _ = write!(path, "{x:.1},{y:.1} ");
            path
        });
        self.push(&format!(r#"<polyline points="{}" class="line c{colour}"/>"#, path.trim_end()));
        for (x, y) in points {
            self.push(&format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" class="c{colour}"/>"#));
        }
    }

    pub(super) fn bar(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        colour: usize,
        opacity: f64,
    ) {
        self.push(&format!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" class="c{colour}" opacity="{opacity}" stroke-width="0"/>"#
        ));
    }

    fn push(&mut self, element: &str) {
        self.body += element;
        self.body.push('\n');
    }

    pub(super) fn finish(self) -> String {
        let Self { body, height, title } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n<style>{STYLE}</style>\n{body}</svg>\n"
        )
    }
}
