//! Blocks with type parameters, constants and where clauses.

use std::{collections::HashMap, error::Error, fmt::Debug, hash::Hash};

use freeboard::prelude::*;

use crate::spawn;

#[derive(Clone)]
struct Cache<K, V, const N: usize> {
    entries: HashMap<K, V>,
}

impl<K, V, const N: usize> Actor for Cache<K, V, N>
where
    K: Eq + Hash + Send + 'static,
    V: Send + 'static,
{
}

#[handlers]
impl<K: Eq + Hash + Send + 'static, V, const N: usize> Cache<K, V, N>
where
    V: Clone + Send + 'static,
    Option<V>: Debug,
{
    fn put(&mut self, key: K, value: V) -> Option<V> {
        self.entries.insert(key, value)
    }

    fn get(&self, key: K) -> Option<V> {
        self.entries.get(&key).cloned()
    }

    fn get_many(&mut self, keys: [K; N]) -> Vec<Option<V>> {
        keys.map(|key| self.get(key)).to_vec()
    }

    async fn len(&mut self, cx: &mut Context<Self>, other: Option<ActorRef<Self>>) -> usize {
        let is_other = other.is_some_and(|it| it != cx.actor_ref());
        self.entries.len() + usize::from(is_other)
    }

    fn clear(&mut self) {
        self.entries.clear();
    }
}

/// For one type only, with names of its own.
#[handlers(prefix = TextCache)]
impl Cache<String, String, 2> {
    fn joined(&self, separator: &'static str) -> String {
        let values: Vec<&str> = self.entries.values().map(String::as_str).collect();
        values.join(separator)
    }
}

#[test]
fn messages_have_the_parameters_that_they_need() -> Result<(), Box<dyn Error>> {
    let cache: Cache<u8, String, 2> = Cache {
        entries: HashMap::new(),
    };
    let (_system, cache) = spawn(cache);
    assert_eq!(cache.put(1, "a".to_owned()).wait()?, None);
    cache.tell(CachePut {
        key: 2,
        value: "b".to_owned(),
    })?;
    assert_eq!(cache.ask(CacheGet { key: 2 }).wait()?.as_deref(), Some("b"));
    let all = cache.ask(CacheGetMany { keys: [1, 3] }).wait()?;
    assert_eq!(all, [Some("a".to_owned()), None]);
    assert_eq!(cache.len(Some(cache.clone())).wait()?, 2);
    cache.tell(CacheClear)?;
    assert_eq!(cache.len(None).wait()?, 0);
    Ok(())
}

#[test]
fn a_block_is_for_one_instance() -> Result<(), Box<dyn Error>> {
    let entries = HashMap::from([("k".to_owned(), "v".to_owned())]);
    let (_system, cache) = spawn(Cache::<_, _, 2> { entries });
    assert_eq!(cache.joined(", ").wait()?, "v");
    Ok(())
}
