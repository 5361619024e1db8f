// Stage `turn` (all pairs, full diffusion): a R_z of every row, which `adjoint` adds to ∂/∂b̃.
#bind work
#use grid
#use rows
#use product
#use diffusion_rows
#use sums

fn left_at(row: u32) -> u32 { return row; }
fn left(row: u32, k: u32) -> vec4<f32> { return sum_of(row, SUM_Z, k); }

fn store(row: u32, column: u32, value: vec4<f32>) {
    if (column >= job.stride) { return; }
    work[row * job.work_stride + job.at_left + column] = job.z_factor * unpadded(value, column, job.dim);
}
