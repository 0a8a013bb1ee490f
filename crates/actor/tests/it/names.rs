//! Names: given at spawning or later, found by type, taken, and freed at termination.

use crate::common::{Noter, Notes, ended, eventually, finish, system};
use freeboard_actor::{Actor, ActorRef, Context, Handler, SpawnError, SpawnOptions, System};
use freeboard_flow::LaneConfig;

fn spawn_named(system: &System, name: &str) -> Result<ActorRef<Noter>, SpawnError> {
    system.spawn_with(SpawnOptions::new().name(name), Noter::default)
}

#[test]
fn a_named_actor_is_found_by_its_name_and_type() {
    let system = system();
    let noter = spawn_named(&system, "noter").expect("free");
    assert_eq!(noter.name(), Some("noter"));
    assert_eq!(system.whereis::<Noter>("noter"), Some(noter.clone()));
    assert_eq!(system.whereis::<Noter>("other"), None);
    assert_eq!(system.whereis::<Nameless>("noter"), None);
    finish(&system);
    assert_eq!(system.whereis::<Noter>("noter"), None);
}

#[test]
fn a_taken_name_makes_no_second_actor() {
    let system = system();
    spawn_named(&system, "noter").expect("free");
    let made = Notes::default();
    let noted = made.clone();
    let second = system.spawn_with(SpawnOptions::new().name("noter"), move || {
        noted.push(());
        Noter::default()
    });
    let Err(SpawnError::NameTaken(name)) = second else {
        panic!("a name was given twice");
    };
    assert_eq!(name, "noter");
    finish(&system);
    assert_eq!(made.len(), 0);
    assert_eq!(system.snapshot().actors_spawned, 1);
}

#[test]
fn a_name_is_free_once_its_actor_has_ended() {
    let system = system();
    for _ in 0..200 {
        let noter = spawn_named(&system, "noter").expect("free");
        noter.stop();
        ended(&noter);
        eventually("the name is free", || {
            system.whereis::<Noter>("noter").is_none()
        });
    }
    finish(&system);
}

#[test]
fn registered_names_are_freed_at_the_end() {
    let system = system();
    let noter = system.spawn(Noter::default());
    system.register("first", &noter).expect("free");
    system.register("second", &noter).expect("free");
    assert_eq!(
        system.register("first", &noter),
        Err(SpawnError::NameTaken("first".to_owned()))
    );
    assert_eq!(system.whereis::<Noter>("second"), Some(noter.clone()));
    noter.stop();
    ended(&noter);
    let other = system.spawn(Noter::default());
    eventually("the names are free", || {
        system.register("first", &other).is_ok()
    });
    assert_eq!(system.whereis::<Noter>("second"), None);
    // A terminated actor keeps no name.
    system.register("late", &noter).expect("free");
    assert_eq!(system.whereis::<Noter>("late"), None);
    finish(&system);
}

struct Nameless;

impl Actor for Nameless {}

/// Looks itself up when it starts.
struct Seeker(Notes<bool>);

impl Actor for Seeker {
    fn started(&mut self, cx: &mut Context<Self>) {
        let found = cx.system().whereis::<Self>("seeker");
        self.0.push(found == Some(cx.actor_ref()));
    }
}

#[test]
fn an_actor_has_its_name_when_it_starts() {
    let (system, found) = (system(), Notes::default());
    for _ in 0..1_000 {
        let noted = found.clone();
        let seeker = system
            .spawn_with(SpawnOptions::new().name("seeker"), move || {
                Seeker(noted.clone())
            })
            .expect("free");
        seeker.stop_gracefully();
        ended(&seeker);
        eventually("the name is free", || {
            system.whereis::<Seeker>("seeker").is_none()
        });
    }
    finish(&system);
    assert_eq!(found.all(), vec![true; 1_000]);
}

#[test]
fn bad_options_are_refused() {
    let system = system();
    let spawned = system.spawn_with(
        SpawnOptions::new().lane(LaneConfig::bounded(0)),
        Noter::default,
    );
    assert!(matches!(spawned, Err(SpawnError::Options(_))));
    let spawned = system.spawn_with(SpawnOptions::new().lanes([]), Noter::default);
    assert!(matches!(spawned, Err(SpawnError::Options(_))));
    let spawned = system.spawn_with(
        SpawnOptions::new().lanes(vec![LaneConfig::default(); 9]),
        Noter::default,
    );
    assert!(matches!(spawned, Err(SpawnError::Options(_))));
    // A refused spawn holds no name.
    let options = SpawnOptions::new()
        .name("noter")
        .lane(LaneConfig::bounded(0));
    assert!(system.spawn_with(options, Noter::default).is_err());
    spawn_named(&system, "noter").expect("free");
    assert!(System::builder().workers(0).build().is_err());
    assert!(System::builder().budget_messages(0).build().is_err());
    finish(&system);
}

/// Spawns a named child from within a handler.
impl Handler<String> for Nameless {
    type Reply = Result<ActorRef<Noter>, SpawnError>;
    fn handle(&mut self, name: String, cx: &mut Context<Self>) -> Self::Reply {
        cx.spawn_with(SpawnOptions::new().name(name), Noter::default)
    }
}

#[test]
fn children_have_names_too() {
    let system = system();
    let parent = system.spawn(Nameless);
    let spawn = || parent.ask("child".to_owned()).wait().expect("a reply");
    let child = spawn().expect("free");
    assert_eq!(system.whereis::<Noter>("child"), Some(child));
    assert!(matches!(spawn(), Err(SpawnError::NameTaken(_))));
    parent.stop();
    ended(&parent);
    assert_eq!(system.whereis::<Noter>("child"), None);
    finish(&system);
}

#[test]
fn an_actor_with_ten_thousand_names_frees_its_own_and_no_others() {
    const NAMES: u64 = 10_000;
    let system = system();
    let (first, second) = (
        system.spawn(Noter::default()),
        system.spawn(Noter::default()),
    );
    let name = |actor: &ActorRef<Noter>, number| format!("{}-{number}", actor.id());
    for number in 0..NAMES {
        for actor in [&first, &second] {
            system.register(name(actor, number), actor).expect("free");
        }
    }
    first.stop();
    ended(&first);
    eventually("the names are free", || {
        (0..NAMES).all(|number| system.whereis::<Noter>(&name(&first, number)).is_none())
    });
    for number in 0..NAMES {
        let found = system.whereis::<Noter>(&name(&second, number));
        assert_eq!(found.as_ref(), Some(&second));
    }
    for number in 0..NAMES {
        system
            .register(name(&first, number), &second)
            .expect("free");
    }
    finish(&system);
    assert_eq!(system.whereis::<Noter>(&name(&second, 0)), None);
}
