//! Files of scenarios: reading them, and writing them back with other answers.
//!
//! A scenario begins with `# name` and goes on to the next. A line in the first column is a command; the lines below it that
//! begin with two spaces are its answer. `! rocksdb: reason` after an answer says that RocksDB answers otherwise, with
//! RocksDB's answer below it. Lines that begin with `//` are comments; they and empty lines stay where they are.

/// The beginning of the line that tells why RocksDB's answer is another one.
const OTHERWISE: &str = "! rocksdb: ";

/// RocksDB's own answer where it is not the expected one.
#[derive(Clone, Debug)]
pub struct Otherwise {
    pub reason: String,
    pub answer: Vec<String>,
}

/// A command and what is expected below it.
#[derive(Clone, Debug)]
pub struct Step {
    pub command: String,
    pub answer: Vec<String>,
    pub otherwise: Option<Otherwise>,
}

/// What stands in a file, in its order.
#[derive(Clone, Debug)]
pub enum Item {
    /// `# name`.
    Title(String),
    /// A comment or an empty line.
    Text(String),
    Step(Step),
}

/// One scenario: its place in the file, by items.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    pub steps: Vec<Step>,
    /// The items that the steps are, in the file.
    pub items: Vec<usize>,
}

/// The items of a file.
///
/// # Errors
/// The line that does not fit.
pub fn parse(text: &str) -> Result<Vec<Item>, String> {
    let mut items: Vec<Item> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line_number = at + 1;
        let wrong = |what: &str| Err(format!("line {line_number}: {what}"));
        if let Some(name) = line.strip_prefix("# ") {
            items.push(Item::Title(name.trim().to_owned()));
        } else if line.trim().is_empty() || line.starts_with("//") {
            items.push(Item::Text(line.to_owned()));
        } else if let Some(answer) = line.strip_prefix("  ") {
            let Some(Item::Step(step)) = items.last_mut() else { return wrong("an answer without a command") };
            match &mut step.otherwise {
                Some(otherwise) => otherwise.answer.push(answer.to_owned()),
                None => step.answer.push(answer.to_owned()),
            }
        } else if let Some(reason) = line.strip_prefix(OTHERWISE) {
            let Some(Item::Step(step)) = items.last_mut() else { return wrong("a difference without a command") };
            step.otherwise = Some(Otherwise { reason: reason.trim().to_owned(), answer: Vec::new() });
        } else {
            if !items.iter().any(|item| matches!(item, Item::Title(_))) {
                return wrong("a command before the first scenario");
            }
            let command = line.trim().to_owned();
            items.push(Item::Step(Step { command, answer: Vec::new(), otherwise: None }));
        }
    }
    Ok(items)
}

/// The scenarios of a file.
pub fn scenarios(items: &[Item]) -> Vec<Scenario> {
    let mut all: Vec<Scenario> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        match (item, all.last_mut()) {
            (Item::Title(name), _) => all.push(Scenario { name: name.clone(), steps: Vec::new(), items: Vec::new() }),
            (Item::Step(step), Some(scenario)) => {
                scenario.steps.push(step.clone());
                scenario.items.push(at);
            }
            _ => {}
        }
    }
    all
}

/// The text of a file; [`parse`] reads it.
pub fn print(items: &[Item]) -> String {
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    for item in items {
        match item {
            Item::Title(name) => line(&format!("# {name}")),
            Item::Text(own) => line(own),
            Item::Step(step) => {
                line(&step.command);
                step.answer.iter().for_each(|answer| line(&format!("  {answer}")));
                if let Some(otherwise) = &step.otherwise {
                    line(&format!("{OTHERWISE}{}", otherwise.reason));
                    otherwise.answer.iter().for_each(|answer| line(&format!("  {answer}")));
                }
            }
        }
    }
    text
}
