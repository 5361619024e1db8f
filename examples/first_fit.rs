//! The program of the README: `skds simulate sde -o .` makes a train.npz for it.

use skds::prelude::*;

fn main() -> Result<()> {
    let data = Dataset::read("train.npz")?;
    let model = Fit::new().seed(1).fit(&data)?;
    for line in model.findings() {
        println!("{line}");
    }
    let prediction = model.predict(&data, &Do::set("x3", 2.0))?;
    for name in prediction.names() {
        let (mean, (low, high)) = (prediction.mean(name)?, prediction.interval(name, 0.9)?);
        println!("{name:>4} {mean:>7.2}   90 % of rows between {low:.2} and {high:.2}");
    }
    model.save("model.safetensors")
}
