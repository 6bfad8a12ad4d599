-- Every order of 100 or more, as it comes.
CREATE STREAMING TABLE large_orders
USING ottla TBLPROPERTIES ('topic' = 'large-orders', 'key' = 'item')
AS SELECT item, quantity, price, at FROM STREAM orders WHERE quantity * price >= 100;
