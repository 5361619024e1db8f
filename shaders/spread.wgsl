// Stage `spread` (full diffusion): a (x − centre) of every sample, one product with the a of its environment.
#bind x, work, centres
#use grid
#use rows
#use product
#use diffusion_rows

fn left(row: u32, k: u32) -> vec4<f32> {
    if (k >= job.stride) { return vec4<f32>(0.0); }
    return x[row * job.stride + k] - centres[tile_environment * job.stride + k];
}

fn store(row: u32, column: u32, value: vec4<f32>) {
    if (column >= job.stride) { return; }
    work[row * job.work_stride + job.at_spread + column] = value;
}
