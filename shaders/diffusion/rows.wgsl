// Rows of a full a as the right side of a product: a is symmetric, so its rows serve as columns.
var<private> tile_environment: u32;

fn right(unit: u32, k: u32) -> vec4<f32> {
    if (unit >= job.dim || k >= job.stride) { return vec4<f32>(0.0); }
    return diffusion[tile_environment * job.diffusion_stride + unit * job.stride + k];
}
