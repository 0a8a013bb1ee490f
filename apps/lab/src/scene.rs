//! The framework of the scenes.
//!
//! A scene declares its parameters (clap), a typed record of each run, and the measures of a record. The framework
//! performs the runs and derives everything that is shown:
//!
//! ```text
//!   Scene::play ──▶ Stage::run, one each ──▶ runs ──┬──▶ table, remarks, JSON, page of the scene
//!                                                   └──▶ section of the report
//! ```

use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    console::Console,
    figures::{Unit, times},
    findings::{self, Findings},
    interrupt::Interrupt,
    outputs::OutputArgs,
    peers::{PeerArgs, Peers},
    plot::{self, Bar, Bars},
    section::{Figure, Headline, Section, Side},
    table::{self, unseen},
    usage::Usage,
};

/// The fixed texts of a scene.
#[derive(Debug)]
pub(crate) struct About {
    /// The name of command, JSON and page.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What the scene is, in a sentence.
    pub(crate) lead: &'static str,
    /// What went wrong in the original: where, when, with its figures.
    pub(crate) original: &'static str,
    /// The meaning of measures that need an explanation.
    pub(crate) legend: &'static str,
}

/// A number of each record.
#[derive(Debug)]
pub(crate) struct Measure<R> {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    /// `None` if this run does not have it.
    pub(crate) value: fn(&R) -> Option<f64>,
}

impl<R> Measure<R> {
    pub(crate) const fn new(name: &'static str, unit: Unit, value: fn(&R) -> Option<f64>) -> Self {
        Self { name, unit, value }
    }

    fn cell(&self, record: &R) -> String {
        (self.value)(record).map_or_else(unseen, |value| self.unit.number(value))
    }

    fn text(&self, record: &R) -> String {
        (self.value)(record).map_or_else(unseen, |value| self.unit.text(value))
    }

    /// Its name, and its unit in the next line.
    fn header(&self) -> String {
        match self.unit.name() {
            "" => self.name.to_owned(),
            unit => format!("{}\n{unit}", self.name),
        }
    }
}

/// A bar for each run that has the measure.
#[derive(Debug)]
pub(crate) struct Chart<R: 'static> {
    pub(crate) measure: Measure<R>,
    pub(crate) note: &'static str,
}

/// What others published of a measure.
#[derive(Debug)]
pub(crate) struct Published<R: 'static> {
    pub(crate) measure: Measure<R>,
    /// Where and when.
    pub(crate) source: &'static str,
    /// The figure that belongs beside a run, if there is one.
    pub(crate) figure: fn(&R) -> Option<String>,
}

/// The rows of a table.
pub(crate) type Rows = Vec<Vec<String>>;

/// One run and what it measured.
#[derive(Debug)]
pub(crate) struct Run<R> {
    /// Unique among the runs that are compared.
    pub(crate) title: String,
    pub(crate) side: Side,
    pub(crate) record: R,
    /// What the run did, in words.
    pub(crate) parameters: String,
    /// Plots of this run alone.
    pub(crate) figures: Vec<Figure>,
    /// Tables of this run alone, the header first.
    pub(crate) tables: Vec<Rows>,
    /// What failed, if something did.
    pub(crate) failure: Option<String>,
}

/// A failure and its cure, measured in the same call.
#[derive(Debug)]
pub(crate) struct Contrast<'a, R: 'static> {
    pub(crate) measure: &'static Measure<R>,
    pub(crate) failure: &'a Run<R>,
    pub(crate) cure: &'a Run<R>,
}

/// Of single runs a smaller ratio may be chance.
const RATIO_MIN: f64 = 1.5;

impl<R> Contrast<'_, R> {
    /// How many times better the cure is, infinitely if one of them is 0; `None` if the difference may be
    /// chance.
    fn ratio(&self) -> Option<f64> {
        let value = |run: &Run<R>| (self.measure.value)(&run.record);
        let (failure, cure) = (value(self.failure)?, value(self.cure)?);
        let (more, less) = match self.measure.unit.is_rate() {
            true => (cure, failure),
            false => (failure, cure),
        };
        (more > 0.0)
            .then(|| more / less)
            .filter(|ratio| *ratio >= RATIO_MIN)
    }

    /// The measure of the failure and of the cure, with unit.
    pub(crate) fn texts(&self) -> [String; 2] {
        [self.failure, self.cure].map(|run| self.measure.text(&run.record))
    }

    fn headline(&self, claim: &str) -> Headline {
        let text = |run: &Run<R>| format!("{}, {}", self.measure.text(&run.record), run.title);
        Headline {
            claim: claim.to_owned(),
            failure: text(self.failure),
            cure: text(self.cure),
            beside: unseen(),
            ratio: match self.ratio() {
                None => "no clear difference".to_owned(),
                Some(ratio) if ratio.is_finite() => times(ratio),
                Some(_) if self.measure.unit.is_rate() => "from 0".to_owned(),
                Some(_) => "to 0".to_owned(),
            },
        }
    }

    /// The scene's sentence with the ratio.
    fn sentence(&self, claim: &str) -> String {
        match self.ratio() {
            Some(ratio) if ratio.is_infinite() => claim.to_owned(),
            Some(ratio) => format!("{claim} The ratio is {}.", times(ratio)),
            None => format!("{claim} That is no clear difference."),
        }
    }
}

/// The scene's part of the report.
#[derive(Debug)]
pub(crate) struct Calls {
    /// The scene in a line.
    pub(crate) about: &'static str,
    /// About how long the full size takes on two cores: the weight in the progress bar.
    pub(crate) seconds: u64,
    /// The parameters of each call. All scenes together end within three minutes.
    pub(crate) full: &'static [&'static str],
    /// The same, within seconds.
    pub(crate) quick: &'static [&'static str],
}

/// A scene: a failure, its cure, and how both are measured.
pub(crate) trait Scene: Sized {
    /// What a run measured. Its serialized form is the run in the JSON, whose keys stay.
    type Record: Serialize + 'static;

    const ABOUT: About;
    const REPORT: Calls;
    /// The columns of the table.
    const MEASURES: &'static [Measure<Self::Record>];
    const CHARTS: &'static [Chart<Self::Record>];
    const PUBLISHED: &'static [Published<Self::Record>];

    fn outputs(&self) -> &OutputArgs;

    /// Whether runs on other runtimes are wanted, of a scene that has them.
    fn peers(&self) -> PeerArgs {
        PeerArgs::default()
    }

    /// What the parameters ask for, checked.
    type Prepared;

    /// Checks the parameters before any output or work.
    ///
    /// # Errors
    /// Bad usage.
    fn prepare(&self) -> Result<Self::Prepared>;

    /// Performs the runs, each by [`Stage::run`].
    ///
    /// # Errors
    /// Whatever kept a run from its end.
    fn play(&self, prepared: Self::Prepared, stage: &mut Stage<'_, Self::Record>) -> Result<()>;

    /// The JSON of one call; null if there is none.
    ///
    /// # Errors
    /// None that a record could cause.
    fn document(&self, runs: &[Run<Self::Record>]) -> Result<Value> {
        let runs: Result<Vec<Value>> = runs.iter().map(|it| findings::json(&it.record)).collect();
        Ok(json!({"scene": Self::ABOUT.name, "runs": runs?}))
    }

    /// The failure and the cure among our runs; `None` if they were not both run.
    fn contrast(runs: &[Run<Self::Record>]) -> Option<Contrast<'_, Self::Record>>;

    /// The contrast in a sentence that needs no knowledge of the scene.
    fn claim(contrast: &Contrast<'_, Self::Record>) -> String;

    /// Plots of several runs, before those of each.
    fn figures(_: &[Run<Self::Record>]) -> Vec<Figure> {
        Vec::new()
    }

    /// Where the runs were performed, by name and value.
    fn environment(_: &[Run<Self::Record>]) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// What this scene's runs show beyond table and contrast, in sentences.
    fn remarks(runs: &[Run<Self::Record>]) -> Vec<String>;
}

/// Where a scene performs its runs.
#[derive(Debug)]
pub(crate) struct Stage<'a, R> {
    pub(crate) console: &'a Console,
    pub(crate) interrupt: &'a Interrupt,
    peers: &'a Peers,
    runs: Vec<Run<R>>,
    /// Runs on other runtimes.
    beside: Vec<Run<R>>,
    /// Why runs on other runtimes are missing.
    missing: Vec<String>,
}

impl<R> Stage<'_, R> {
    /// Performs a run and keeps it. Returns whether another run may follow: not after an interrupt, and not after a
    /// failure.
    ///
    /// # Errors
    /// Those of the run.
    pub(crate) fn run(
        &mut self,
        run: impl FnOnce(&Console, &Interrupt) -> Result<Run<R>>,
    ) -> Result<bool> {
        if self.interrupt.has_come() {
            return Ok(false);
        }
        let run = run(self.console, self.interrupt)?;
        let is_sound = run.failure.is_none();
        self.keep(run);
        Ok(is_sound)
    }

    /// Performs a run of each plan, in order. Returns whether another run may follow.
    ///
    /// # Errors
    /// Those of the runs.
    pub(crate) fn run_each<P>(
        &mut self,
        plans: &[P],
        mut run: impl FnMut(&P, &Console, &Interrupt) -> Result<Run<R>>,
    ) -> Result<bool> {
        for plan in plans {
            if !self.run(|console, interrupt| run(plan, console, interrupt))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Keeps a run that was performed elsewhere.
    pub(crate) fn keep(&mut self, run: Run<R>) {
        self.runs.push(run);
    }

    /// Performs a run on another runtime, unless these are left out or a run failed. An error becomes a sentence of the
    /// result. Returns whether it was performed.
    pub(crate) fn beside(
        &mut self,
        title: &str,
        run: impl FnOnce(&Peers, &Interrupt) -> Result<Run<R>>,
    ) -> bool {
        let has_failed = self.runs.iter().any(|it| it.failure.is_some());
        if self.peers.are_left_out() || self.interrupt.has_come() || has_failed {
            return false;
        }
        // A Ctrl-C between two programs of a run ends the run, and not the process, which would leave their folder.
        let _listening = self.interrupt.listen(|| ());
        self.console.line(title);
        let run = run(self.peers, self.interrupt);
        let is_performed = run.is_ok();
        match run {
            Ok(run) => self.beside.push(run),
            Err(error) => {
                let text = format!("{title} is missing: {error:#}.");
                self.console.line(&text);
                self.missing.push(text);
            }
        }
        is_performed
    }
}

/// Performs a scene by its own command and shows the result.
///
/// # Errors
/// Those of the scene, and a failure in one of its runs.
pub(crate) fn show<S: Scene>(scene: &S, interrupt: &Interrupt) -> Result<ExitCode> {
    let page_name = format!("{}.html", S::ABOUT.name);
    findings::show(scene.outputs(), &page_name, interrupt, |console| {
        let peers = Peers::new(scene.peers());
        play(std::slice::from_ref(scene), console, &peers, interrupt)
    })
}

/// Performs these calls of a scene.
///
/// # Errors
/// Those of the scene.
pub(crate) fn play<S: Scene>(
    calls: &[S],
    console: &Console,
    peers: &Peers,
    interrupt: &Interrupt,
) -> Result<Findings> {
    let prepared: Result<Vec<S::Prepared>> = calls.iter().map(Scene::prepare).collect();
    let prepared = prepared?;
    console.line(S::ABOUT.lead);
    let (mut ours, mut beside) = (Vec::new(), Vec::new());
    let (mut missing, mut records) = (Vec::new(), Vec::new());
    let mut broken = None;
    for (call, prepared) in calls.iter().zip(prepared) {
        let mut stage = Stage {
            console,
            interrupt,
            peers,
            runs: Vec::new(),
            beside: Vec::new(),
            missing: Vec::new(),
        };
        let played = call.play(prepared, &mut stage);
        let has_runs = !ours.is_empty() || !stage.runs.is_empty();
        match played {
            // What was finished is shown.
            Err(error) if has_runs && !error.is::<Usage>() => broken = Some(format!("{error:#}")),
            played => played?,
        }
        let mut document = call.document(&stage.runs)?;
        if let Value::Object(document) = &mut document {
            if !stage.beside.is_empty() {
                document.insert("peers".to_owned(), peers_json(&stage.beside)?);
            }
            if !stage.missing.is_empty() {
                document.insert("missing".to_owned(), json!(stage.missing));
            }
        }
        if !document.is_null() {
            records.push(document);
        }
        ours.extend(stage.runs);
        beside.extend(stage.beside);
        missing.extend(stage.missing);
        if broken.is_some() {
            break;
        }
    }
    missing.dedup();
    clear_sides::<S>(&mut ours);
    let failed = |run: &Run<_>| Some(format!("{}: {}", run.title, run.failure.as_ref()?));
    let failure = ours.iter().find_map(failed).or(broken);
    let mut details = details::<S>(&ours);
    details.extend(missing);
    let headline = headline::<S>(&ours, &beside);
    let runs: Vec<Run<S::Record>> = ours.into_iter().chain(beside).collect();
    let rows = rows::<S>(&runs);
    let comparison = published::<S>(&runs);
    let tables = runs.iter().flat_map(|it| &it.tables);
    let tables: Vec<String> = std::iter::once(&rows)
        .chain(tables)
        .chain((comparison.len() > 1).then_some(&comparison))
        .map(|rows| table::table(rows))
        .collect();
    Ok(Findings {
        table: tables.join("\n"),
        verdict: details.clone(),
        records,
        failure,
        section: section::<S>(runs, headline, details, rows, comparison),
    })
}

/// The records of runs on other runtimes, each with the name of its run.
fn peers_json<R: Serialize>(runs: &[Run<R>]) -> Result<Value> {
    let named = |run: &Run<R>| {
        let mut record = findings::json(&run.record)?;
        if let Value::Object(record) = &mut record {
            record.shift_insert(0, "run".to_owned(), json!(run.title));
        }
        Ok(record)
    };
    runs.iter().map(named).collect()
}

/// The contrast of two sound runs.
fn contrast<S: Scene>(runs: &[Run<S::Record>]) -> Option<Contrast<'_, S::Record>> {
    S::contrast(runs).filter(|it| it.failure.failure.is_none() && it.cure.failure.is_none())
}

/// Without a clear contrast no run shows a failure or a cure, and a run that failed never does.
fn clear_sides<S: Scene>(runs: &mut [Run<S::Record>]) {
    let is_clear = contrast::<S>(runs).is_some_and(|it| it.ratio().is_some());
    for run in runs {
        let has_side = matches!(run.side, Side::Failure | Side::Cure);
        if has_side && (!is_clear || run.failure.is_some()) {
            run.side = Side::Neither;
            run.figures
                .iter_mut()
                .for_each(|it| it.side = Side::Neither);
        }
    }
}

fn rows<S: Scene>(runs: &[Run<S::Record>]) -> Rows {
    let names = S::MEASURES.iter().map(Measure::header);
    let header = std::iter::once("run".to_owned()).chain(names).collect();
    let row = |run: &Run<S::Record>| {
        let cells = S::MEASURES.iter().map(|it| it.cell(&run.record));
        std::iter::once(run.title.clone()).chain(cells).collect()
    };
    std::iter::once(header)
        .chain(runs.iter().map(row))
        .collect()
}

fn details<S: Scene>(runs: &[Run<S::Record>]) -> Vec<String> {
    let contrast = contrast::<S>(runs).map(|it| it.sentence(&S::claim(&it)));
    let remarks = S::remarks(runs);
    contrast.into_iter().chain(remarks).collect()
}

/// The published figures, each beside the run that it belongs to; the header first.
fn published<S: Scene>(runs: &[Run<S::Record>]) -> Rows {
    let header = ["", "published", "source", "here"].map(str::to_owned);
    let mut rows = vec![header.to_vec()];
    for run in runs {
        for it in S::PUBLISHED {
            if let Some(figure) = (it.figure)(&run.record) {
                let name = format!("{}: {}", run.title, it.measure.name);
                let here = it.measure.text(&run.record);
                rows.push(vec![name, figure, it.source.to_owned(), here]);
            }
        }
    }
    rows
}

/// The contrast, and its measure of each run on another runtime.
fn headline<S: Scene>(ours: &[Run<S::Record>], beside: &[Run<S::Record>]) -> Option<Headline> {
    let contrast = contrast::<S>(ours)?;
    let of_peer = |run: &Run<S::Record>| {
        let value = (contrast.measure.value)(&run.record)?;
        Some(format!(
            "{}, {}",
            contrast.measure.unit.text(value),
            run.title
        ))
    };
    let beside: Vec<String> = beside.iter().filter_map(of_peer).collect();
    let mut headline = contrast.headline(&S::claim(&contrast));
    if !beside.is_empty() {
        headline.beside = beside.join("; ");
    }
    Some(headline)
}

fn section<S: Scene>(
    runs: Vec<Run<S::Record>>,
    headline: Option<Headline>,
    details: Vec<String>,
    rows: Rows,
    comparison: Rows,
) -> Section {
    let charts = S::CHARTS.iter().filter_map(|it| chart(it, &runs));
    let mut figures: Vec<Figure> = S::figures(&runs).into_iter().chain(charts).collect();
    let parameters = runs.iter().map(|it| ("run", it.parameters.clone()));
    let parameters = S::environment(&runs)
        .into_iter()
        .chain(parameters)
        .collect();
    let mut tables = vec![rows];
    for run in runs {
        figures.extend(run.figures);
        tables.extend(run.tables);
    }
    Section {
        title: S::ABOUT.title,
        lead: S::ABOUT.lead,
        original: S::ABOUT.original,
        headline: headline.unwrap_or_default(),
        verdict: details.first().cloned().unwrap_or_default(),
        figures,
        comparison,
        details,
        tables,
        legend: S::ABOUT.legend,
        parameters,
    }
}

fn chart<R>(chart: &Chart<R>, runs: &[Run<R>]) -> Option<Figure> {
    let bar = |run: &Run<R>| {
        let value = (chart.measure.value)(&run.record)?;
        Some(Bar {
            name: run.title.clone(),
            parts: vec![value],
            note: chart.measure.unit.text(value),
            side: run.side,
        })
    };
    let bars: Vec<Bar> = runs.iter().filter_map(bar).collect();
    let title = chart.measure.name.to_owned();
    (!bars.is_empty()).then(|| Figure {
        side: Side::of_all(bars.iter().map(|it| it.side)),
        svg: plot::bars(
            &title,
            &Bars {
                bars,
                ..Bars::default()
            },
        ),
        title,
        note: chart.note.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Measure<f64> = Measure::new("rate", Unit::PerSecond("/s"), |it| Some(*it));
    const TIME: Measure<f64> = Measure::new("time", Unit::Seconds, |it| Some(*it));

    fn run(title: &str, record: f64) -> Run<f64> {
        Run {
            title: title.to_owned(),
            side: Side::Neither,
            record,
            parameters: String::new(),
            figures: Vec::new(),
            tables: Vec::new(),
            failure: None,
        }
    }

    #[test]
    fn a_cure_is_better_by_more_than_chance() {
        let check = |measure, failure, cure, text: &str| {
            let (failure, cure) = (run("bad", failure), run("good", cure));
            let contrast = Contrast {
                measure,
                failure: &failure,
                cure: &cure,
            };
            assert_eq!(contrast.sentence("So."), format!("So.{text}"));
        };
        const UNCLEAR: &str = " That is no clear difference.";
        check(&RATE, 1.0, 4.0, " The ratio is 4.0 x.");
        check(&RATE, 1.0, 1.4, UNCLEAR);
        check(&RATE, 4.0, 1.0, UNCLEAR);
        check(&RATE, 0.0, 4.0, "");
        check(&RATE, 0.0, 0.0, UNCLEAR);
        check(&TIME, 4.0, 1.0, " The ratio is 4.0 x.");
        check(&TIME, 1.0, 4.0, UNCLEAR);
        check(&TIME, 4.0, 0.0, "");
    }
}
