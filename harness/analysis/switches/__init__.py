"""What single ideas of a backend are worth, and orders in memory: findings of `ablation` and `cpu_layout`.

May be imported: `findings`. Never imports report or run.
"""
