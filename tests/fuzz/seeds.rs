//! What is mutated: the golden files, files that the library writes, recorded requests, and the plans that ship.

use crate::doors::{self, Office};
use skds::data::Dataset;
use std::path::Path;

/// Between the two files of a csv dataset, and between features and diffusion.
pub const BREAK: u8 = 0x0c;

fn golden(ending: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.retain(|path| path.to_string_lossy().ends_with(ending));
    assert!(!paths.is_empty());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

pub fn npz(folder: &Path) -> Vec<Vec<u8>> {
    let path = folder.join("seed.npz");
    doors::data().write(&path).unwrap();
    let own = std::fs::read(&path).unwrap();
    // As often as all of the golden ones, which have no names.
    let all = golden(".npz");
    let count = all.len() / 4;
    all.into_iter().chain(vec![own; count]).collect()
}

/// The two files of a dataset as one input.
pub fn csv(folder: &Path) -> Vec<Vec<u8>> {
    let path = folder.join("seed.csv");
    doors::data().write(&path).unwrap();
    let targets = path.with_file_name("seed.targets.csv");
    let own = [std::fs::read(&path).unwrap(), std::fs::read(targets).unwrap()].join(&BREAK);
    let by_hand: [&[u8]; 6] = [
        b"a,b\n1,2\n3,4\n5,6\n",
        b"\xef\xbb\xbfa;b\r\n1;2\r\n",
        b"a,env,b\n1,1,10\n2,0,20\n3,1,30\n4,0,40\n\x0cenv,b,a\n1,True,0\n0,false,0\n",
        b"\"x 1\", Env ,\"y\"\"\"\n1.5e-3,0,-2\n7,0,8\n\n9,0,1\n",
        b"0.5,1.5\n1,2\n3,4\n",
        b"x\n1\n2\n3\n",
    ];
    std::iter::once(own).chain(by_hand.iter().map(|text| text.to_vec())).collect()
}

pub fn parameters() -> Vec<Vec<u8>> {
    golden(".params.safetensors")
        .into_iter()
        .chain(golden("000-skds-rbf-linear-linear.expected.safetensors"))
        .collect()
}

pub fn models(folder: &Path) -> Vec<Vec<u8>> {
    let path = folder.join("seed.safetensors");
    doors::models(folder)
        .iter()
        .map(|model| {
            model.save(&path).unwrap();
            std::fs::read(&path).unwrap()
        })
        .collect()
}

pub fn checkpoints(folder: &Path) -> Vec<Vec<u8>> {
    let path = folder.join("seed.checkpoint.safetensors");
    doors::write_checkpoint(folder, &path);
    vec![std::fs::read(path).unwrap()]
}

pub fn expressions() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 6] = [
        b"x\n{gene a}\nx*{gene a}\nx^2\n\x0c1, self^2",
        b"# comment\nexp(-0.5*((x-1)/2)^2)\nsin(x)+cos({gene a})\n\x0c1",
        "γ·x − 2.5e-3\ntanh(γ)^3/(1+abs(x))\n\u{c}exp(self)".as_bytes(),
        b"sigmoid(x)*log(2+x^2)\nsqrt(abs(x))\n1\n\x0c0.5+abs(self),1",
        b"-(-(-x))\n2^-3^x\nx-x-x\nx/2/2\n\x0c1,1,1",
        b"x+x+x+x*x*x*x\n((((x))))\n\x0c1+0*self",
    ];
    texts.iter().map(|text| text.to_vec()).collect()
}

pub fn settings() -> Vec<Vec<u8>> {
    let texts = [
        "# nothing\n",
        "bandwidth = 3\nlambda = 0.1\ntune = false\n",
        "solver = \"adam\"\nsteps = 500\nbatch = 64\nlearning_rate = 0.01\nenvs_per_step = 1\nestimator = \"u\"\nseed = 3\n",
        "model = \"mlp\"\nhidden = 4\nactivation = \"relu\"\nkernel = \"tilted-rbf\"\nbandwidth = \"auto\"\npenalty = \"both\"\n",
        "model = \"basis\"\nfeatures = \"rbf:3\"\ndiffusion = \"1, self^2\"\nstandardize = true\nstabilize = false\n",
        "objective = \"kds\"\nkernel = \"imq-plus\"\ntargets = \"unknown\"\nlearn_scale = true\n",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub fn plans() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let shipped = ["paper.toml", "quick.toml"].map(|name| std::fs::read(folder.join(name)).unwrap());
    let small = b"datasets = 2\nfirst_seed = 5\n\n[[system]]\nname = \"A\"\nsettings = { system = \"sde\", dim = 5, rows = 60, train_envs = 3, \
        test_envs = 2, edges = 2 }\n\n[[method]]\nname = \"p\"\nkind = \"program\"\ncommand = [\"true\"]\nseconds = 1.5\n\n[[method]]\n\
        name = \"d\"\nkind = \"diagonal\"\nsystems = [\"A\"]\n\n[[published]]\nmethod = \"o\"\nw2 = { A = 2.5 }\n";
    shipped.into_iter().chain([small.to_vec(), small.to_vec(), small.to_vec()]).collect()
}

pub fn manifests(folder: &Path) -> Vec<Vec<u8>> {
    let settings = skds::simulate::Settings {
        dim: 3,
        rows: 4,
        train_envs: 1,
        test_envs: 1,
        edges: 1,
        ..Default::default()
    };
    let folder = folder.join("simulated");
    let simulated = skds::simulate::simulate(&settings, &Default::default()).unwrap();
    simulated.write(&folder, &settings).unwrap();
    vec![std::fs::read(folder.join("manifest.json")).unwrap()]
}

pub fn requests(office: &Office) -> Vec<Vec<u8>> {
    let lines = include_str!("requests.txt").lines();
    lines
        .map(|line| line.replace("DATASET", &office.dataset).replace("MODEL", &office.model).into_bytes())
        .collect()
}

/// The service's dataset and model.
pub fn office(folder: &Path) -> Office {
    let data: Dataset = doors::data();
    Office::open(folder.join("service"), &data, &doors::models(folder)[0])
}
