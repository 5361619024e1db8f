// a = diag(α): a v is a product by coordinates. α lies in `diffusion` at e · diffusion_stride.
#bind diffusion

fn alpha(e: u32, k: u32) -> vec4<f32> { return diffusion[e * job.diffusion_stride + k]; }

// a x at one sample.
fn spread(row: u32, e: u32, k: u32, v: vec4<f32>) -> vec4<f32> { return alpha(e, k) * v; }

// a (x − y), where `r` is x − y.
fn spread_pair(row: u32, other: u32, e: u32, k: u32, r: vec4<f32>) -> vec4<f32> { return alpha(e, k) * r; }
