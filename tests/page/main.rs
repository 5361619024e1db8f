//! The page of `skds serve` in a real browser, used as a person would: data in, a fit, an intervention.

#[path = "../common/chromium.rs"]
mod chromium;

use chromium::{Browser, Process, after_mark};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Enough for the curve to be seen moving; a few seconds.
const STEPS: u32 = 60_000;

/// A service on a free port, and its address.
fn serve(data: &Path) -> (Process, String) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_skds"))
        .args(["serve", "--listen", "127.0.0.1:0", "--device", "cpu", "--data"])
        .arg(data)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = process.stdout.take().unwrap();
    let process = Process(process);
    (process, after_mark(output, "listening on "))
}

/// A chain x → y → z with noise.
fn write_chain(path: &Path) {
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let mut noise = || -> f64 { StandardNormal.sample(&mut random) };
    let mut text = String::from("x,y,z\n");
    for _ in 0..900 {
        let x = noise();
        let y = 0.8 * x + 0.6 * noise() + 1.0;
        let z = -0.7 * y + 0.6 * noise();
        writeln!(text, "{x},{y},{z}").unwrap();
    }
    std::fs::write(path, text).unwrap();
}

/// Keeps a picture of the page if someone wants to look at it.
fn picture(browser: &mut Browser, name: &str) {
    if let Some(folder) = std::env::var_os("SKDS_SCREENSHOTS") {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(Path::new(&folder).join(name), browser.screenshot()).unwrap();
    }
}

fn mean_of(browser: &mut Browser, variable: &str) -> f64 {
    let mean =
        browser.evaluate(&format!("Number(document.querySelector('[data-name={variable}]').dataset.mean)"));
    mean.as_f64().unwrap_or_else(|| panic!("the mean of {variable} is not a number: {mean}"))
}

#[test]
fn a_person_fits_a_csv_file_and_moves_an_intervention() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.csv");
    write_chain(&file);
    let (_server, address) = serve(&folder.path().join("service"));
    let mut browser = Browser::start();
    browser.resize(1100, 900);
    browser.load("Page.navigate", json!({ "url": address }));
    browser.wait("page", "document.querySelector('#model-hint')?.textContent");
    picture(&mut browser, "1-start.png");

    // Data.
    browser.choose_file("#file", &file);
    browser.wait("dataset", "document.querySelector('#dataset').checkVisibility()");
    let facts = browser.evaluate("document.querySelector('#dataset').innerText");
    for fact in ["chain.csv", "900", "3"] {
        assert!(facts.as_str().unwrap().contains(fact), "{fact} is not in {facts}");
    }

    // A fit by Adam, started by the keyboard: the curve must move while it runs.
    browser.evaluate(&format!(
        "document.querySelector('#more').open = true;
         document.querySelector('#model').value = 'linear';
         document.querySelector('#model').dispatchEvent(new Event('change'));
         document.querySelector('#steps').value = {STEPS};
         window.moves = 0;
         new MutationObserver(() => {{
             if (!document.querySelector('#cancel').hidden) window.moves += 1;
         }}).observe(document.querySelector('#curve-line'), {{ attributeFilter: ['d'] }});
         document.querySelector('#fit').focus()"
    ));
    picture(&mut browser, "2-data.png");
    browser.press("Enter");
    browser.wait("movement of the curve while the fit runs", "window.moves >= 4");
    picture(&mut browser, "3-running.png");
    browser.wait("heat map", "document.querySelector('#effects').checkVisibility()");
    assert_eq!(browser.evaluate("document.querySelectorAll('#effects .cell').length"), 9);
    let summary = browser.evaluate("document.querySelector('#summary').textContent");
    assert!(summary.as_str().unwrap().contains(&format!("{STEPS} steps")), "{summary}");

    // Arrow keys move through the cells and say what they hold.
    browser.evaluate("document.querySelector('#effects .cell').focus()");
    browser.press("ArrowDown");
    let readout = browser.evaluate("document.querySelector('#readout').textContent");
    assert!(readout.as_str().unwrap().starts_with("x → y: "), "{readout}");

    // An intervention on x, by arrow keys on its slider: y follows.
    browser.wait("densities", "document.querySelectorAll('#densities figure').length == 3");
    browser.evaluate(
        "document.querySelector('#target').value = 'x';
         document.querySelector('#target').dispatchEvent(new Event('change'));
         document.querySelector('#shift').focus()",
    );
    let rest = ["x", "y"].map(|variable| mean_of(&mut browser, variable));
    for _ in 0..10 {
        browser.press("ArrowRight");
    }
    let shift = browser.evaluate("Number(document.querySelector('#shift').value)");
    assert!(shift.as_f64().unwrap() > 0.0, "ten presses of the arrow key left the shift at {shift}");
    browser.wait(
        "sample under the shift",
        "document.querySelector('#sample-note').textContent ===
         `Shown: x shifted by ${document.querySelector('#shift-value').textContent}.`",
    );
    let moved = ["x", "y"].map(|variable| mean_of(&mut browser, variable));
    assert!(moved[0] > rest[0] + 0.2, "the mean of x went from {} to {}", rest[0], moved[0]);
    assert!((moved[1] - rest[1]).abs() > 0.02, "the mean of y went from {} to {}", rest[1], moved[1]);
    picture(&mut browser, "4-intervention.png");
    // By default the rows of the file are moved: at rest they are as they were written.
    let offer = browser.evaluate("document.querySelector('#anchor-field').innerText");
    assert_eq!(offer.as_str().unwrap().trim(), "Move the observed rows of chain.csv");
    let text = std::fs::read_to_string(&file).unwrap();
    let of_file: Vec<f64> =
        text.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    let mean = of_file.iter().sum::<f64>() / of_file.len() as f64;
    assert!((rest[0] - mean).abs() < 1e-6 + 1e-3 * mean.abs(), "{} {mean}", rest[0]);
    // Without them it is the model's law.
    browser.evaluate("document.querySelector('#anchor').click()");
    browser.wait(
        "samples of the law",
        &format!("Math.abs(Number(document.querySelector('[data-name=x]').dataset.mean) - {mean}) > 1e-6"),
    );

    // The default fit says how far to trust it: without interventions nobody can tell what they do.
    browser.evaluate(
        "document.querySelector('#model').value = 'auto';
         document.querySelector('#model').dispatchEvent(new Event('change'));
         document.querySelector('#fit').click()",
    );
    browser.wait("word on trust", "document.querySelector('#trust').checkVisibility()");
    let trust = browser.evaluate("document.querySelector('#trust').textContent");
    assert!(trust.as_str().unwrap().starts_with("No interventions are known; "), "{trust}");
    let summary = browser.evaluate("document.querySelector('#summary').textContent");
    assert!(summary.as_str().unwrap().contains("KDS by moments"), "{summary}");
    browser.wait("densities again", "document.querySelectorAll('#densities figure').length == 3");

    // The job can be found again, and a small screen needs no scrolling sideways.
    browser.wait("job in the list", "document.querySelector('#jobs').innerText.includes('Fit of chain.csv')");
    browser.load("Page.reload", json!({}));
    browser.wait("result after a reload", "document.querySelector('#densities figure')");
    browser.resize(360, 800);
    browser.wait("layout for a small screen", "window.innerWidth == 360");
    picture(&mut browser, "5-narrow.png");
    let width = browser.evaluate("document.documentElement.scrollWidth").as_u64().unwrap();
    assert!(width <= 360, "the page is {width} wide on a screen of 360");

    assert!(browser.complaints.is_empty(), "{}", browser.complaints.join("\n"));
}
