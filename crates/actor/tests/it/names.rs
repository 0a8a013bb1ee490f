//! Names: given at spawning or later, found by type, taken, and freed at termination.

use crate::common::*;

fn spawn_named(system: &System, name: &str) -> Result<ActorRef<Probe>, SpawnError> {
    system.spawn_with(SpawnOptions::new().name(name), Probe::default)
}

#[test]
fn a_named_actor_is_found_by_its_name_and_type() {
    let system = system();
    let actor = spawn_named(&system, "actor").expect("free");
    assert_eq!(actor.name(), Some("actor"));
    assert_eq!(system.whereis::<Probe>("actor"), Some(actor.clone()));
    assert_eq!(system.whereis::<Probe>("other"), None);
    assert_eq!(system.whereis::<Nameless>("actor"), None);
    finish(&system);
    assert_eq!(system.whereis::<Probe>("actor"), None);
}

#[test]
fn a_taken_name_makes_no_second_actor() {
    let system = system();
    spawn_named(&system, "actor").expect("free");
    let made = Notes::default();
    let noted = made.clone();
    let second = system.spawn_with(SpawnOptions::new().name("actor"), move || {
        noted.push(());
        Probe::default()
    });
    let Err(SpawnError::NameTaken(name)) = second else {
        panic!("a name was given twice");
    };
    assert_eq!(name, "actor");
    finish(&system);
    assert_eq!(made.len(), 0);
    assert_eq!(system.snapshot().actors_spawned, 1);
}

/// Whoever sees the end finds the name free.
#[test]
fn a_name_is_free_once_its_actor_has_ended() {
    let system = system();
    for _ in 0..5_000 {
        let actor = spawn_named(&system, "actor").expect("free");
        system.register("further", &actor).expect("free");
        actor.stop();
        while actor.is_alive() {
            std::hint::spin_loop();
        }
        assert_eq!(system.whereis::<Probe>("actor"), None);
        assert_eq!(system.whereis::<Probe>("further"), None);
    }
}

#[test]
fn registered_names_are_freed_at_the_end() {
    let system = system();
    let actor = probe(&system).0;
    system.register("first", &actor).expect("free");
    system.register("second", &actor).expect("free");
    assert_eq!(
        system.register("first", &actor),
        Err(SpawnError::NameTaken("first".to_owned()))
    );
    assert_eq!(system.whereis::<Probe>("second"), Some(actor.clone()));
    actor.stop();
    ended(&actor);
    let other = probe(&system).0;
    eventually("the names are free", || {
        system.register("first", &other).is_ok()
    });
    assert_eq!(system.whereis::<Probe>("second"), None);
    // A terminated actor keeps no name.
    system.register("late", &actor).expect("free");
    assert_eq!(system.whereis::<Probe>("late"), None);
}

struct Nameless;

impl Actor for Nameless {}

#[test]
fn an_actor_has_its_name_when_it_starts() {
    let (system, found) = (system(), Notes::default());
    for _ in 0..1_000 {
        let noted = found.clone();
        let seeker = Probe {
            on_started: Some(Box::new(move |cx| {
                let itself = cx.system().whereis::<Probe>("seeker");
                noted.push(itself == Some(cx.actor_ref()));
            })),
            ..Probe::default()
        };
        let seeker = system.spawn_once(SpawnOptions::new().name("seeker"), seeker);
        let seeker = seeker.expect("free");
        seeker.stop_gracefully();
        ended(&seeker);
        eventually("the name is free", || {
            system.whereis::<Probe>("seeker").is_none()
        });
    }
    finish(&system);
    assert_eq!(found.all(), vec![true; 1_000]);
}

#[test]
fn bad_options_are_refused() {
    let system = system();
    let lanes = |lanes: &[LaneConfig]| SpawnOptions::new().lanes(lanes);
    let nine = [LaneConfig::default(); 9];
    let backoff = Supervision::restart().backoff(LIMIT, Duration::ZERO);
    let backoff = SpawnOptions::new().supervision(backoff);
    let limit = |restarts, time| {
        SpawnOptions::new().supervision(Supervision::restart().limit(restarts, time))
    };
    let (many, always) = (limit(1_025, LIMIT), limit(1, Duration::ZERO));
    for options in [bounded(0), lanes(&[]), lanes(&nine), backoff, many, always] {
        let spawned = system.spawn_with(options, Probe::default);
        assert!(matches!(spawned, Err(SpawnError::Options(_))));
    }
    // There would be nothing to restart it from.
    let options = SpawnOptions::new().supervision(Supervision::restart());
    let spawned = system.spawn_once(options, Probe::default());
    assert_eq!(spawned.err(), Some(SpawnError::NoFactory));
    // A refused spawn holds no name.
    let options = SpawnOptions::new()
        .name("actor")
        .lane(LaneConfig::bounded(0));
    assert!(system.spawn_with(options, Probe::default).is_err());
    spawn_named(&system, "actor").expect("free");
    assert!(System::builder().workers(0).build().is_err());
    assert!(System::builder().budget_messages(0).build().is_err());
}

#[test]
fn children_have_names_too() {
    let system = system();
    let (parent, _) = probe(&system);
    let spawn = || {
        within(&parent, |cx| {
            cx.spawn_with(SpawnOptions::new().name("child"), Probe::default)
        })
    };
    let child = spawn().expect("free");
    assert_eq!(system.whereis::<Probe>("child"), Some(child));
    assert!(matches!(spawn(), Err(SpawnError::NameTaken(_))));
    parent.stop();
    ended(&parent);
    assert_eq!(system.whereis::<Probe>("child"), None);
}

#[test]
fn an_actor_with_ten_thousand_names_frees_its_own_and_no_others() {
    const NAMES: u64 = 10_000;
    let system = system();
    let (first, second) = (probe(&system).0, probe(&system).0);
    let name = |actor: &ActorRef<Probe>, number| format!("{}-{number}", actor.id());
    for number in 0..NAMES {
        for actor in [&first, &second] {
            system.register(name(actor, number), actor).expect("free");
        }
    }
    first.stop();
    ended(&first);
    eventually("the names are free", || {
        (0..NAMES).all(|number| system.whereis::<Probe>(&name(&first, number)).is_none())
    });
    for number in 0..NAMES {
        let found = system.whereis::<Probe>(&name(&second, number));
        assert_eq!(found.as_ref(), Some(&second));
    }
    for number in 0..NAMES {
        system
            .register(name(&first, number), &second)
            .expect("free");
    }
    finish(&system);
    assert_eq!(system.whereis::<Probe>(&name(&second, 0)), None);
}
