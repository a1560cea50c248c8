//! The id of a lock's holder: an instance and one of its threads.

use std::fmt;
use std::sync::Arc;

/// The id stored in a lock: `<instance>:<thread>`.
#[derive(Clone, PartialEq, Eq)]
pub struct Holder {
    instance: Arc<str>,
    field: Arc<str>,
}

impl Holder {
    /// The holder for `thread` of `instance`, where `instance` is a UUID as
    /// [`Holder::new_instance`] makes them.
    pub fn new(instance: &str, thread: i64) -> Holder {
        Holder { instance: instance.into(), field: format!("{instance}:{thread}").into() }
    }

    /// The holder for the next hold of the same instance. A request about an earlier hold that
    /// Redis carries out late cannot concern a later one.
    #[must_use]
    pub fn next(&self) -> Holder {
        let (_, thread) = self.field.rsplit_once(':').unwrap_or_default();
        Holder::new(&self.instance, thread.parse::<i64>().unwrap_or(0).saturating_add(1))
    }

    /// The holder that a field of a lock's hash names; `None` if it names none.
    pub fn of_field(field: &str) -> Option<Holder> {
        let (instance, thread) = field.rsplit_once(':')?;
        Some(Holder::new(instance, thread.parse().ok()?))
    }

    /// A new random instance id: a version 4 UUID. Unique, but not secret.
    pub fn new_instance() -> String {
        let random = fastrand::u128(..);
        let versioned = (random & !(0xf << 76)) | (0x4 << 76);
        let id = (versioned & !(0x3 << 62)) | (0x2 << 62);
        let hex = format!("{id:032x}");
        let (a, rest) = hex.split_at(8);
        let (b, rest) = rest.split_at(4);
        let (c, rest) = rest.split_at(4);
        let (d, e) = rest.split_at(4);
        format!("{a}-{b}-{c}-{d}-{e}")
    }

    /// The instance's id.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The field of the lock's hash.
    pub fn field(&self) -> &str {
        &self.field
    }
}

impl fmt::Debug for Holder {
    /// Omits the thread, because a client that knows the whole field can release the lock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Holder({})", self.instance)
    }
}

#[cfg(test)]
mod tests {
    use super::Holder;

    #[test]
    fn an_instance_id_is_a_version_4_uuid() {
        for _ in 0..200 {
            let id = Holder::new_instance();
            let lengths: Vec<usize> = id.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
            assert!(
                id.chars().all(|c| c == '-' || (c.is_ascii_hexdigit() && !c.is_ascii_uppercase())),
                "{id}"
            );
            assert_eq!(&id[14..15], "4", "{id}");
            assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
        }
        assert_ne!(Holder::new_instance(), Holder::new_instance());
    }

    #[test]
    fn debug_output_does_not_show_what_could_release_the_lock() {
        let holder = Holder::new("2b1e", 77);
        assert_eq!(holder.field(), "2b1e:77");
        assert_eq!(format!("{holder:?}"), "Holder(2b1e)");
    }

    #[test]
    fn each_hold_of_an_instance_has_a_holder_of_its_own() {
        let first = Holder::new("a", 1);
        assert_eq!((first.next().instance(), first.next().field()), ("a", "a:2"));
    }
}
