//! Places in a document: the way from its top to a value.

/// One step from the top of the document to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Into a field of a mapping.
    Field(String),
    /// Into an item of a list.
    Item(usize),
}

/// A value, or the name of a field, in the document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) steps: Vec<Step>,
    /// Whether the name of the last field is meant, not its value.
    pub(super) on_name: bool,
}

impl Place {
    pub(super) fn field(&self, name: &str) -> Place {
        self.step(Step::Field(name.to_owned()))
    }

    pub(super) fn item(&self, index: usize) -> Place {
        self.step(Step::Item(index))
    }

    pub(super) fn name_of_field(&self, name: &str) -> Place {
        Place { on_name: true, ..self.field(name) }
    }

    /// The value of the field whose name was meant.
    pub(super) fn value(self) -> Place {
        Place { on_name: false, ..self }
    }

    /// The same place relative to its task.
    pub(super) fn within_task(&self) -> Place {
        Place { steps: self.steps.iter().skip(2).cloned().collect(), ..*self }
    }

    fn step(&self, step: Step) -> Place {
        let mut steps = self.steps.clone();
        steps.push(step);
        Place { steps, on_name: false }
    }
}
