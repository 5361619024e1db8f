//! Writes a graph to files that other programs read.

use super::{Effect, Graph};
use crate::files::output;
use crate::named::named;
use crate::{Error, Result};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

/// A file format, named by its extension.
///
/// Every file holds the effects, strongest first. GraphML and DOT also hold all variables, as nodes n0, n1, … with the names as
/// labels, including variables without effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Columns source, target, strength; standard where standard units are known, low and high where there are intervals,
    /// in_members and members where models are averaged.
    Csv,
    /// For Cytoscape, Gephi, yEd, igraph, networkx …: node attribute `name`, edge attribute `strength`.
    GraphMl,
    /// For Graphviz: the width of an arrow grows with |strength|; red is above 0, blue below; dashed where the interval
    /// contains 0.
    Dot,
}

named!(Format, "graph format", { Csv => "csv", GraphMl => "graphml", Dot => "dot" });

impl Format {
    /// The format of a path's extension.
    pub fn of(path: &Path) -> Result<Format> {
        let known = || Format::ALL.iter().map(|f| format!(".{f}")).collect::<Vec<_>>().join(", ");
        match path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()) {
            Some(extension) => extension.parse().map_err(|_| {
                Error::file(path, format!("has the extension .{extension}, expected one of {}", known()))
            }),
            None => Err(Error::file(path, format!("has no extension, expected one of {}", known()))),
        }
    }
}

impl Graph {
    /// Writes `path` in the format of its extension. The same graph gives the same bytes.
    pub fn write(&self, path: &Path) -> Result<()> {
        let format = Format::of(path)?;
        output::write_atomically(path, |writer| match format {
            Format::Csv => self.write_csv(writer),
            Format::GraphMl => writer.write_all(self.graphml().as_bytes()),
            Format::Dot => writer.write_all(self.dot().as_bytes()),
        })
    }

    fn write_csv(&self, writer: &mut dyn Write) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(writer);
        let intervals = self.effects().iter().any(|effect| effect.interval.is_some());
        let standard = self.effects().iter().any(|effect| effect.standard.is_some());
        let mut header = vec!["source", "target", "strength"];
        if standard {
            header.push("standard");
        }
        if intervals {
            header.extend(["low", "high"]);
        }
        let members = self.effects().iter().any(|effect| effect.members.is_some());
        if members {
            header.extend(["in_members", "members"]);
        }
        writer.write_record(header)?;
        for effect in self.effects() {
            let (source, target) = (&self.names()[effect.source], &self.names()[effect.target]);
            let mut record = vec![source.clone(), target.clone(), number(effect.strength)];
            record.extend(effect.standard.map(number));
            if let Some((low, high)) = effect.interval {
                record.extend([number(low), number(high)]);
            }
            if let Some((with, all)) = effect.members {
                record.extend([with.to_string(), all.to_string()]);
            }
            writer.write_record(record)?;
        }
        writer.flush()
    }

    fn graphml(&self) -> String {
        let mut text = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n\
             \x20 <key id=\"name\" for=\"node\" attr.name=\"name\" attr.type=\"string\"/>\n\
             \x20 <key id=\"strength\" for=\"edge\" attr.name=\"strength\" attr.type=\"double\"/>\n\
",
        );
        if self.effects().iter().any(|effect| effect.interval.is_some()) {
            for end in ["low", "high"] {
                line(
                    &mut text,
                    format_args!(
                        "  <key id=\"{end}\" for=\"edge\" attr.name=\"{end}\" attr.type=\"double\"/>"
                    ),
                );
            }
        }
        if self.effects().iter().any(|effect| effect.members.is_some()) {
            text.push_str("  <key id=\"members\" for=\"edge\" attr.name=\"members\" attr.type=\"int\"/>\n");
        }
        text.push_str("  <graph id=\"effects\" edgedefault=\"directed\">\n");
        for (index, name) in self.names().iter().enumerate() {
            let name = xml(name);
            line(
                &mut text,
                format_args!("    <node id=\"n{index}\"><data key=\"name\">{name}</data></node>"),
            );
        }
        for effect in self.effects() {
            let (source, target, strength) = (effect.source, effect.target, number(effect.strength));
            let ends = effect.interval.map_or(String::new(), |(low, high)| {
                format!("<data key=\"low\">{}</data><data key=\"high\">{}</data>", number(low), number(high))
            });
            let members = effect
                .members
                .map_or(String::new(), |(with, _)| format!("<data key=\"members\">{with}</data>"));
            line(
                &mut text,
                format_args!(
                    "    <edge source=\"n{source}\" target=\"n{target}\"><data key=\"strength\">{strength}</data>{ends}{members}</edge>"
                ),
            );
        }
        text.push_str("  </graph>\n</graphml>\n");
        text
    }

    fn dot(&self) -> String {
        let mut text = String::from("digraph effects {\n  node [shape=box, style=rounded];\n");
        for (index, name) in self.names().iter().enumerate() {
            line(&mut text, format_args!("  n{index} [label=\"{}\"];", dot_label(name)));
        }
        let strongest = self.effects().first().map_or(1.0, Effect::size);
        for effect in self.effects() {
            let (source, target, strength) = (effect.source, effect.target, number(effect.strength));
            // From barely visible lines to the strongest arrow.
            let width = 0.3 + 3.7 * effect.size() / strongest;
            let colour = if effect.strength > 0.0 { "#b2182b" } else { "#2166ac" };
            // An effect with an uncertain sign is dashed.
            let style = match effect.interval {
                Some((low, high)) if low <= 0.0 && high >= 0.0 => ", style=dashed",
                _ => "",
            };
            line(
                &mut text,
                format_args!(
                    "  n{source} -> n{target} [strength=\"{strength}\", penwidth={width:.2}, color=\"{colour}\"{style}];"
                ),
            );
        }
        text.push_str("}\n");
        text
    }
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    writeln!(text, "{content}").expect("writing to memory does not fail");
}

/// The shortest digits that parse to the same number, with an exponent instead of many zeros.
fn number(value: f64) -> String {
    format!("{value:?}")
}

/// The content of an XML element.
fn xml(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        match c {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            // Readers may change white space that is written as it is.
            '\t' | '\n' | '\r' => text.push_str(&format!("&#{};", u32::from(c))),
            // XML has no other control characters, not even escaped, and not these two.
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => text.push(char::REPLACEMENT_CHARACTER),
            c => text.push(c),
        }
    }
    text
}

/// The inside of a quoted label of Graphviz, where a backslash begins a command and an ampersand may begin an entity.
fn dot_label(name: &str) -> String {
    let mut text = String::new();
    for (at, c) in name.char_indices() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '&' if begins_entity(&name[at..]) => text.push_str("&amp;"),
            c if c.is_control() => text.push(' '),
            c => text.push(c),
        }
    }
    text
}

/// Other readers of DOT take an ampersand as it is, so it is escaped only where Graphviz would not.
fn begins_entity(text: &str) -> bool {
    let inside = text[1..].split_once(';').map(|(inside, _)| inside);
    inside.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '#'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;
    use crate::model::{Drift, Model, Noise, Parameters};
    use std::path::PathBuf;

    const NAMES: [&str; 4] = ["a\"b", "<x> & \\n", "ä,ö", "line\nbreak\u{1}&lt;"];

    fn graph() -> Graph {
        let mut weights = Matrix::full(4, 4, 0.0);
        (weights[(1, 0)], weights[(0, 2)], weights[(2, 3)]) = (0.1 + 0.2, -2.0, 1e-300);
        let parameters = Parameters {
            drift: Drift::linear(weights),
            biases: vec![0.0; 4],
            noise: Noise::Diagonal { log_noise: vec![0.0; 4] },
            shift: None,
            log_scale: None,
        };
        let model = Model { names: NAMES.map(String::from).to_vec(), ..Model::new(parameters) };
        Graph::of(&model).unwrap()
    }

    #[test]
    fn csv_comes_back_exactly() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("graph.CSV");
        graph().write(&path).unwrap();
        let mut reader = csv::Reader::from_path(&path).unwrap();
        assert_eq!(reader.headers().unwrap(), vec!["source", "target", "strength"]);
        let rows: Vec<(String, String, f64)> = reader.deserialize().map(|row| row.unwrap()).collect();
        let expected =
            [(NAMES[2], NAMES[0], -2.0), (NAMES[0], NAMES[1], 0.1 + 0.2), (NAMES[3], NAMES[2], 1e-300)];
        assert_eq!(rows, expected.map(|(s, t, v)| (s.to_owned(), t.to_owned(), v)));
    }

    #[test]
    fn graphml_is_escaped_and_nested() {
        let text = graph().graphml();
        for piece in [
            "<data key=\"name\">a&quot;b</data>",
            "<data key=\"name\">&lt;x&gt; &amp; \\n</data>",
            "<data key=\"name\">ä,ö</data>",
            "<data key=\"name\">line&#10;break\u{fffd}&amp;lt;</data>",
            "<edge source=\"n2\" target=\"n0\"><data key=\"strength\">-2.0</data></edge>",
            "<data key=\"strength\">0.30000000000000004</data>",
            "<data key=\"strength\">1e-300</data>",
        ] {
            assert!(text.contains(piece), "{piece} in {text}");
        }
        // Every element that is opened is closed, in order.
        let mut open = Vec::new();
        for tag in text.split('<').skip(2).map(|part| part.split_once('>').unwrap().0) {
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{text}");
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().unwrap());
            }
        }
        assert!(open.is_empty());
        assert_eq!(text.matches("<node ").count(), 4);
        assert_eq!(text.matches("<edge ").count(), 3);
    }

    #[test]
    fn dot_is_quoted() {
        let text = graph().dot();
        let expected = r##"digraph effects {
  node [shape=box, style=rounded];
  n0 [label="a\"b"];
  n1 [label="<x> & \\n"];
  n2 [label="ä,ö"];
  n3 [label="line\nbreak &amp;lt;"];
  n2 -> n0 [strength="-2.0", penwidth=4.00, color="#2166ac"];
  n0 -> n1 [strength="0.30000000000000004", penwidth=0.86, color="#b2182b"];
  n3 -> n2 [strength="1e-300", penwidth=0.30, color="#b2182b"];
}
"##;
        assert_eq!(text, expected);
    }

    #[test]
    fn the_extension_decides_and_unknown_ones_list_the_known() {
        for (name, format) in
            [("g.csv", Format::Csv), ("g.GraphML", Format::GraphMl), ("g.x.dot", Format::Dot)]
        {
            assert_eq!(Format::of(&PathBuf::from(name)).unwrap(), format);
        }
        let sentence = |name: &str| Format::of(&PathBuf::from(name)).unwrap_err().to_string();
        assert_eq!(sentence("g.gml"), "g.gml: has the extension .gml, expected one of .csv, .graphml, .dot");
        assert_eq!(sentence("g"), "g: has no extension, expected one of .csv, .graphml, .dot");
    }

    #[test]
    fn a_graph_without_effects_still_has_its_variables() {
        let empty = graph().select(Some(9.0), None);
        assert_eq!(empty.graphml().matches("<node ").count(), 4);
        assert_eq!(empty.dot().lines().count(), 7);
    }
}
