// Stage `diffusion` (full): a = σσᵀ of every environment, σ = diag(exp(log_scale)) noise.
#bind parameters, diffusion
#use grid
#use product
#use unpadded

var<private> tile_environment: u32;

fn left_at(row: u32) -> u32 { return job.at_noise + min(row, job.dim - 1u) * job.stride; }
fn left(at: u32, k: u32) -> vec4<f32> { return parameters[at + k]; }
fn right_at(row: u32) -> u32 { return left_at(row); }
fn right(at: u32, k: u32) -> vec4<f32> { return parameters[at + k]; }

fn store(row: u32, column: u32, value: vec4<f32>) {
    if (row >= job.dim || column >= job.stride) { return; }
    let scales = job.at_scale + tile_environment * job.stride;
    let scale = exp(parameters[scales + row / 4u][row % 4u]) * exp(parameters[scales + column]);
    diffusion[tile_environment * job.diffusion_stride + row * job.stride + column] =
        scale * unpadded(value, column, job.dim);
}

#use product_rows

@compute @workgroup_size(TILE_THREADS)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let tiles = job.column_tiles * job.column_tiles;
    tile_environment = group / tiles;
    product_rows(group % tiles / job.column_tiles, group % job.column_tiles, job.stride, thread);
}
