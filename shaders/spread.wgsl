// Stage `spread` (full diffusion): a (x − centre) of every sample, one product with the a of its environment.
#bind x, work, centres
#use grid
#use rows
#use product
#use diffusion_rows

fn left_at(row: u32) -> u32 { return row * job.stride; }
fn left(at: u32, k: u32) -> vec4<f32> { return x[at + k] - centres[tile_environment * job.stride + k]; }

fn store(row: u32, column: u32, value: vec4<f32>) {
    if (column >= job.stride) { return; }
    work[row * job.work_stride + job.at_spread + column] = unpadded(value, column, job.dim);
}
