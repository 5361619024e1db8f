// Adjoints of neighbouring rows from the coefficients that `pairs` left in their records.
#bind x, work
#use adjoint_common

const STEPS: u32 = 2u;     // pairs per thread
const STEP_ROWS: u32 = 2u;

fn visit(row: u32, block: Block, k: u32, sum: ptr<function, Sums>) {
    let e = block.environment;
    let here = row * job.work_stride;
    let there = here + job.work_stride;
    let px = x[row * job.stride + k];
    let py = x[(row + 1u) * job.stride + k];
    let b = work[here + job.at_b + k];
    let b_other = work[there + job.at_b + k];
    let c = work[here + 1u];        // c_b, c_r, c_z, c_y
    let c_other = work[there + 1u]; // c_b, c_r', c_z, c_x
    let r = px - py;
    let z = spread_pair(row, row + 1u, e, k, r);
    var bar = c.x * b_other + c.z * z;
    var bar_other = c.x * b - c.z * z;
    var z_bar = c.z * (b - b_other) + work[here + 2u].y * z;
    if (QUADRATIC) {
        bar += c.y * r;
        bar_other += c_other.y * r;
        z_bar += work[here + 2u].x * r;
        if (LINEAR) {
            bar += c.w * py;
            bar_other += c_other.w * px;
        }
    }
    let ax_bar = untilt(row, e, k, bar, work[here].w, sum);
    let ax_bar_other = untilt(row + 1u, e, k, bar_other, work[there].w, sum);
    if (FULL) {
        // Σ z̄ rᵀ = Σ z̄ xᵀ − z̄ yᵀ: one product of these rows with the samples gives ∂/∂a.
        work[here + job.at_left + k] = z_bar + ax_bar;
        work[there + job.at_left + k] = ax_bar_other - z_bar;
    } else {
        (*sum).alpha += z_bar * r;
    }
}

fn row_numbers(row: u32, block: Block) -> vec4<f32> { return vec4<f32>(0.0); }
